"""Tokenizers whose ids one can write down by hand, and a tiny model folder around one of them.

`byte_level`: ids 0..255 are the bytes, then TH "th", THE "the", and the control tokens START and END.
`sentencepiece`: <unk> <s> </s>, then the 256 bytes, then the characters of SP_CHARS, "▁" first.
"""

import json
import signal
import subprocess
import sys
from pathlib import Path

from golden.tiny import write_checkpoint
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from nanokv.__main__ import main
from nanokv.config import parse_config
from nanokv.load import tensor_table

TH, THE, START, END = 256, 257, 258, 259
SP_CHARS = "▁abcdefghijklmnopqrstuvwxyz<>/[]"
CHATML = (
    "{% for m in messages %}{% if loop.first and m.role != 'system' %}<|start|>system\nBe kind.<|end|>\n{% endif %}"
    "<|start|>{{ m.role }}\n{{ m.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)
CONFIG = {
    "model_type": "llama",
    "vocab_size": 263,  # padded: the tokenizer has 260
    "hidden_size": 40,
    "intermediate_size": 56,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 160,
    "torch_dtype": "bfloat16",
}


def byte_characters() -> list:
    """The character that stands for each byte in byte-level vocabularies: itself where printable, else 256 + n."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in printable]
    return [chr(byte) if byte in printable else chr(256 + rest.index(byte)) for byte in range(256)]


def byte_level() -> Tokenizer:
    names = [*byte_characters(), "th", "the"]
    tokenizer = Tokenizer(models.BPE({name: i for i, name in enumerate(names)}, [("t", "h"), ("th", "e")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|start|>", "<|end|>"])
    return tokenizer


def sentencepiece(legacy: bool = True) -> Tokenizer:
    """Llama 2's kind, which puts <s> in front: spaces are ▁, unknown characters fall back to bytes.

    legacy: a ▁ before the text and behind every control token (a normalizer); else before the text only (Metaspace).
    """
    names = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *SP_CHARS]
    tokenizer = Tokenizer(
        models.BPE({name: i for i, name in enumerate(names)}, [], unk_token="<unk>", byte_fallback=True)
    )
    tokenizer.add_special_tokens(["<unk>", AddedToken("<s>", normalized=False), AddedToken("</s>", normalized=False)])
    if legacy:
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return tokenizer


def sp(text: str) -> list:
    """Ids of characters in SP_CHARS."""
    return [259 + SP_CHARS.index(c) for c in text]


def write_chat(folder, tokenizer: Tokenizer, template: str | None = CHATML, **config):
    """tokenizer.json and tokenizer_config.json. Returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"chat_template": template, **config}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


def write_model(folder, template: str | None = CHATML, eos=None, **config):
    """A whole model folder: tiny Llama weights and the byte-level tokenizer. Returns the folder."""
    config = {**CONFIG, "eos_token_id": eos, **config}
    shapes = {name: shape for name, (shape, _) in tensor_table(parse_config(config)).items()}
    write_checkpoint(folder, config, shapes)
    return write_chat(folder, byte_level(), template)


def command_line(capsys, model, *words):
    """(exit code, stdout, stderr) of `generate --model MODEL words`, run in this process."""
    code = main(["generate", "--model", str(model), *map(str, words)])
    return code, *capsys.readouterr()


def subprocess_line(model, *words, **how):
    """The same in a process of its own, which hears Ctrl-C even when these tests run in the background."""
    command = [sys.executable, "-m", "nanokv", "generate", "--model", str(model), *map(str, words)]
    how = {"cwd": Path(__file__).parents[1], "capture_output": True, "text": True, "preexec_fn": hear_interrupts, **how}
    return subprocess.run(command, check=False, **how)


def hear_interrupts():
    signal.signal(signal.SIGINT, signal.SIG_DFL)
