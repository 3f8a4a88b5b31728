"""Stores the ids of a few texts under SmolLM2's tokenizer: python tests/golden/make_tokenizer.py SmolLM2-...Q4_1.gguf

Needs gguf, regex and transformers. Two independent readings of the same GGUF are stored for each text:
`ids`, by the loop below, which joins bytes one pair at a time after the rule that the file names ("smollm": each digit
by itself, then GPT-2's pattern), and `transformers`, from AutoTokenizer's GGUF loader, less the BOS that it puts in
front. That loader does not read the rule: it leaves the digits in, and reads runs of white space before one otherwise.
(It also adds a BOS against the file's add_bos_token = false, and takes BOS for EOS; neither is compared.)
"""

import json
import sys
from pathlib import Path

import regex
from gguf import GGUFReader
from transformers import AutoTokenizer

TEXTS = [
    "The capital of France is Paris, isn't it? They'll say we've been there.",
    "1234567 3.14 2026-12-01",
    "In 1998,  12 of 345 (x²=½) rooms\n\n 7 were 1st-class.",
    "def f(x):\n    if x > 0:\n\t\treturn [i for i in range(10)]\n    return None\n",
    "Smile 😀 family 👨‍👩‍👧‍👦 flag 🇫🇷 hand 👍🏽!",
    "a   b\t\tc\n\n\nd \n e  \t f",
    "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n",
    "no<|im_end|>space <|endoftext|> and <|not_a_token|><repo_name>x",
    "café naïve Ångström, 北京大学の日本語テキスト, مرحبا بالعالم, Привет, שלום",
    "",
    "   both ends   ",
    "\n",
    "https://example.org/a_b?c=d&e=f#g — “quoted” … 'single' $5.00",
    "<|im_start|>",
]
GPT2 = regex.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")


def main():
    path = Path(sys.argv[1])
    fields = GGUFReader(path).fields
    tokens, merges, types = (fields[f"tokenizer.ggml.{k}"].contents() for k in ("tokens", "merges", "token_type"))
    ids = {token: i for i, token in enumerate(tokens)}
    ranks = {tuple(m.split(" ")): i for i, m in enumerate(merges)}
    special = [t for t, kind in zip(tokens, types, strict=True) if kind == 3]
    peer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    rows = []
    for text in TEXTS:
        theirs = peer(text).input_ids
        assert theirs[0] == ids["<|im_start|>"]
        rows.append({"text": text, "ids": encode(text, ids, ranks, special), "transformers": theirs[1:]})
    out = Path(__file__).parent / "tokenizer_smollm2.json"
    out.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")
    print(out, sum(r["ids"] != r["transformers"] for r in rows), "texts read otherwise by transformers")


def encode(text: str, ids: dict, ranks: dict, special: list) -> list:
    out = []
    for part in regex.split("(" + "|".join(map(regex.escape, special)) + ")", text):
        if part in special:
            out.append(ids[part])
            continue
        for piece in regex.split(r"(\p{N})", part):
            for word in GPT2.findall(piece):
                out += [ids[t] for t in merge([CHARACTER[byte] for byte in word.encode()], ranks)]
    return out


def merge(word: list, ranks: dict) -> list:
    while len(word) > 1:
        rank, i = min((ranks.get((word[i], word[i + 1]), 1 << 30), i) for i in range(len(word) - 1))
        if rank == 1 << 30:
            break
        word = [*word[:i], word[i] + word[i + 1], *word[i + 2 :]]
    return word


def byte_characters() -> dict:
    """GPT-2's table: a printable Latin-1 byte is its own character, the others follow from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in printable]
    return {b: chr(b) for b in printable} | {b: chr(256 + n) for n, b in enumerate(others)}


CHARACTER = byte_characters()

if __name__ == "__main__":
    main()
