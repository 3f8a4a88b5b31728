"""Write the reference outputs of transformers 5.2.0 that tests/test_logits.py compares with.

    python tests/golden/make_logits.py tiny
    python tests/golden/make_logits.py smollm2 FOLDER_OF_THE_GGUF NAME.gguf

Run by hand, with transformers==5.2.0 and torch==2.13.0 (and gguf) in the environment; nothing of nanokv is used.
"tiny" also checks that the reference means what the config says: each layer attends exactly where it should, and
taking the variant's own feature away moves the logits (so the stored numbers can tell right from wrong).
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import save_file
from tiny import scramble, weights, write_checkpoint
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from variants import VARIANTS

HERE = Path(__file__).resolve().parent
N_IDS, N_GREEDY = 40, 24
FIRST = 100  # where in the scrambled numbers the ids start; chosen so that no variant comes near a tie
SAFE_GAP = 1e-3  # between the best and the second logit: a greedy choice nearer than this would test rounding
PROMPTS = (
    "The old lighthouse keeper climbed the stairs every evening, because",
    "def fibonacci(n):\n    ",
    [{"role": "user", "content": "Name three animals that live in the sea."}],
    "Berlin is to Germany as Paris is to France. Madrid is to",
)


def shapes_of(config) -> dict:
    """{tensor name: shape} as a hub folder stores them: a tied head is left out."""
    with torch.device("meta"):
        state = AutoModelForCausalLM.from_config(config).state_dict()
    tied = config.tie_word_embeddings
    return {name: list(x.shape) for name, x in state.items() if not (tied and name == "lm_head.weight")}


def reference(config: dict):
    """A folder with these tiny weights, read back by the library's own loader: (model, shapes)."""
    with tempfile.TemporaryDirectory() as folder:
        write_checkpoint(folder, config, {})
        shapes = shapes_of(AutoConfig.from_pretrained(folder))
        write_checkpoint(folder, config, shapes)
        model, info = AutoModelForCausalLM.from_pretrained(
            folder, attn_implementation="eager", dtype=torch.float32, output_loading_info=True
        )
    assert not any(info.values()), info
    state = model.state_dict()
    assert all(torch.equal(state[name], x) for name, x in weights(shapes).items())
    return model.eval(), shapes


def check_attention(model, ids, windows):
    """Every layer looks at all earlier tokens and itself, at most `window` of them, and at nothing else."""
    back = torch.arange(len(ids))[:, None] - torch.arange(len(ids))[None]
    layers = model(ids[None], output_attentions=True).attentions
    for probs, window in zip(layers, windows, strict=True):
        visible = (back >= 0) & (back < (window or len(ids)))
        assert ((probs[0] > 0) == visible).all()


def check_features(name: str, config: dict, without: list, ids, logits):
    for changes in without:
        other = reference({**config, **changes})[0](ids[None]).logits[0]
        moved = (other - logits).abs().max().item()
        print(f"  without {changes}: logits move by {moved:.3f}")
        assert moved > 0.02, f"{name}: {changes} makes no difference"


def continue_greedily(model, ids, n: int) -> list:
    """n arg-max tokens, the whole text computed anew for each: no cache of the library's is trusted."""
    text = ids
    for _ in range(n):
        best = model(text[None], use_cache=False).logits[0, -1].topk(2)
        gap = (best.values[0] - best.values[1]).item()
        assert gap > SAFE_GAP, f"nearly a tie, {gap:.1e}, after {len(text)} tokens"
        text = torch.cat([text, best.indices[:1]])
    return text[len(ids) :].tolist()


def make_tiny():
    ids = scramble(torch.arange(FIRST, FIRST + N_IDS)) % 97
    logits, variants = {}, {}
    for name, (config, windows, without) in VARIANTS.items():
        model, shapes = reference(config)
        check_attention(model, ids, windows)
        logits[name] = model(ids[None], use_cache=False).logits[0].contiguous()
        greedy = continue_greedily(model, ids, N_GREEDY)
        print(
            f"{name}: logits within {logits[name].abs().max():.1f}, {len(set(greedy))} different tokens of {N_GREEDY}"
        )
        check_features(name, config, without, ids, logits[name])
        variants[name] = {"config": config, "windows": windows, "greedy": greedy, "shapes": shapes}
    save(logits, HERE / "tiny_logits.safetensors")
    write_lines(HERE / "tiny_configs.json", {"ids": ids.tolist(), **variants})


def save(tensors: dict, path: Path):
    save_file(tensors, path)
    path.chmod(0o644)  # the library leaves it readable to its owner only


def write_lines(path: Path, table: dict):
    """JSON with one line for each key of the inner objects: short, and readable in a diff."""
    parts = []
    for name, value in table.items():
        inner = [f"  {json.dumps(key)}: {json.dumps(x)}" for key, x in value.items()] if isinstance(value, dict) else []
        body = "{\n" + ",\n".join(inner) + "\n}" if inner else json.dumps(value)
        parts.append(f"{json.dumps(name)}: {body}")
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


def make_smollm2(folder: str, gguf: str):
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=gguf)
    model = AutoModelForCausalLM.from_pretrained(
        folder, gguf_file=gguf, dtype=torch.float32, attn_implementation="eager"
    )
    text = (HERE / "smollm2_text.txt").read_text(encoding="utf-8")
    ids = torch.tensor(tokenizer.encode(text, add_special_tokens=False))[:512]
    assert len(ids) == 512, f"smollm2_text.txt has only {len(ids)} tokens"
    logits = model.eval()(ids[None], use_cache=False).logits[0]
    columns = torch.arange(300, logits.shape[1], logits.shape[1] // 64)
    stored = {
        "ids": ids.int(),
        "argmax": logits.argmax(-1).int(),
        "logsumexp": logits.double().logsumexp(-1).float(),
        "columns": columns.int(),
        "logits": logits[:, columns].contiguous(),
    }
    for i, prompt in enumerate(PROMPTS):
        if isinstance(prompt, list):
            prompt = tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True)
        start = torch.tensor(tokenizer.encode(prompt, add_special_tokens=False))
        stored[f"prompt_{i}"] = start.int()
        greedy = continue_greedily(model, start, 64)  # straight on past an end-of-turn token
        stored[f"greedy_{i}"] = torch.tensor(greedy, dtype=torch.int32)
        print(f"{prompt!r} -> {tokenizer.decode(greedy)!r}")
    save(stored, HERE / "smollm2_logits.safetensors")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("tiny", "smollm2"))
    parser.add_argument("gguf", nargs="*", help="for smollm2: the folder, and the file's name in it")
    args = parser.parse_args()
    torch.set_num_threads(1)
    with torch.inference_mode():
        make_tiny() if args.what == "tiny" else make_smollm2(*args.gguf)


if __name__ == "__main__":
    sys.exit(main())
