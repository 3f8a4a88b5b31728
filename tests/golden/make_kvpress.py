"""Write the rows that kvpress 0.5.5 keeps, which tests/test_kvpress.py compares with.

    python tests/golden/make_kvpress.py FOLDER_OF_THE_GGUF NAME.gguf

Run by hand, with kvpress==0.5.5, transformers==5.2.0, torch==2.13.0 (and gguf) in the environment; nothing of nanokv
is used. Float32, one thread. The rows are read from what the library leaves behind: the cache, whose keys are looked
up among those of a run without a press, or the list of masked rows where a press only masks (AdaKV).
"""

import argparse
import sys
import tempfile
from pathlib import Path

import kvpress
import numpy as np
import torch
from make_logits import save, shapes_of, write_lines
from tiny import scramble, write_checkpoint
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, DynamicCache
from variants import config

HERE = Path(__file__).resolve().parent
BUDGETS = {300: (80, 128, 200), 1000: (128, 256, 512)}  # all above SnapKV's window of 64, which every press keeps
# Every token of the tiny model is another one: equal tokens have keys of equal norm in layer 0, a tie by construction.
TINY = config("llama", vocab_size=1024, max_position_embeddings=2048, rope_theta=10000.0, torch_dtype="float32")
PRESSES = {
    "snapkv": kvpress.SnapKVPress,
    "tova": kvpress.TOVAPress,
    "expected_attention": kvpress.ExpectedAttentionPress,
    "criticalkv": lambda: kvpress.CriticalKVPress(kvpress.SnapKVPress()),
    "keydiff": kvpress.KeyDiffPress,
    "key_norm": kvpress.KnormPress,
    "streaming_llm": kvpress.StreamingLLMPress,
    "adakv": lambda: kvpress.AdaKVPress(kvpress.SnapKVPress()),
}
SHARED = {"tova": (1,), "streaming_llm": (0, 1)}  # axes of [layer, head, row] along which one set is stored for all


def prefill(model, ids):
    """The cache after one pass over ids [n]."""
    cache = DynamicCache(config=model.config)
    model(ids[None], past_key_values=cache, use_cache=True)
    return cache


def rows_of(kept, full):
    """Which rows of full [h n d] the keys kept [h k d] are, equal to the last bit: bool [h n]."""
    found = torch.zeros(full.shape[:2], dtype=torch.bool)
    for head, (some, every) in enumerate(zip(kept, full, strict=True)):
        same = (some[:, None] == every[None]).all(dim=-1)
        assert (same.sum(dim=-1) == 1).all(), "a kept key is not exactly one of the cache's"
        found[head] = same.any(dim=0)
    return found


def kept_rows(model, ids, full, press, budget: int):
    """bool [layer, head, n]: the rows that one press keeps of ids [n]; full: the cache without a press."""
    press.compression_ratio = 1 - (budget + 0.5) / len(ids)  # the half keeps int() from falling below the budget
    with press(model):
        cache = prefill(model, ids)
    if isinstance(press, kvpress.AdaKVPress):
        keep = torch.ones(len(full.layers), *full.layers[0].keys.shape[1:3], dtype=torch.bool)
        for layer, block in enumerate(model.model.layers):
            _, head, row = block.self_attn.masked_key_indices
            keep[layer, head, row] = False
            assert keep[layer].sum() == keep.shape[1] * budget
        return keep
    pairs = zip(cache.layers, full.layers, strict=True)
    keep = torch.stack([rows_of(some.keys[0], every.keys[0]) for some, every in pairs])
    assert (keep.sum(dim=-1) == budget).all()
    return keep


def packed(name: str, keep):
    """keep [layer, head, n] as bits [layer, head, ceil(n / 8)], first row in the highest bit; one for equal sets."""
    for axis in SHARED.get(name, ()):
        first = keep.narrow(axis, 0, 1)
        assert (keep == first).all(), f"{name} does not keep the same along axis {axis}"
        keep = first
    return torch.from_numpy(np.packbits(keep.numpy(), axis=-1))


def tiny_model():
    """(the tiny model, the shapes of its tensors): grouped queries, 6 heads on 2."""
    with tempfile.TemporaryDirectory() as folder:
        write_checkpoint(folder, TINY, {})
        shapes = shapes_of(AutoConfig.from_pretrained(folder))
        write_checkpoint(folder, TINY, shapes)
        model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="sdpa", dtype=torch.float32)
    return model.eval(), shapes


def smollm2_model(folder: str, gguf: str):
    """(the model, its ids of 1,000 tokens of prose)."""
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=gguf)
    model = AutoModelForCausalLM.from_pretrained(
        folder, gguf_file=gguf, dtype=torch.float32, attn_implementation="sdpa"
    )
    texts = (HERE / "smollm2_text.txt", HERE.parents[1] / "nanokv" / "demo.txt")
    text = "".join(path.read_text(encoding="utf-8") for path in texts)
    ids = tokenizer.encode(text, add_special_tokens=False)
    return model.eval(), torch.tensor(ids)[: max(BUDGETS)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="of the GGUF")
    parser.add_argument("gguf", help="the file's name in it")
    args = parser.parse_args()
    torch.set_num_threads(1)
    tiny, shapes = tiny_model()
    smollm2, smollm2_ids = smollm2_model(args.folder, args.gguf)
    tiny_ids = torch.argsort(scramble(torch.arange(TINY["vocab_size"])))[: max(BUDGETS)]
    for n, budgets in BUDGETS.items():
        stored = {}
        for model_name, model, ids in (("tiny", tiny, tiny_ids[:n]), ("smollm2", smollm2, smollm2_ids[:n])):
            assert len(ids) == n
            full = prefill(model, ids)
            for name, press in PRESSES.items():
                for budget in budgets:
                    keep = kept_rows(model, ids, full, press(), budget)
                    stored[f"{model_name}/{name}/{budget}"] = packed(name, keep)
                    print(
                        f"{model_name} {n} {name} {budget}: {tuple(keep.shape)}, kept {keep.sum().item()}", flush=True
                    )
        save(stored, HERE / f"kvpress_{n}.safetensors")
    settings = {"budgets": {str(n): list(budgets) for n, budgets in BUDGETS.items()}}
    model = {"config": TINY, "shapes": shapes, "ids": tiny_ids.tolist()}
    write_lines(HERE / "kvpress.json", {**settings, "tiny": model, "smollm2": {"ids": smollm2_ids.tolist()}})


if __name__ == "__main__":
    with torch.inference_mode():
        sys.exit(main())
