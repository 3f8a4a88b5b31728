"""The main job on the embedded default: one question over a bundled long text, all rows held and under eviction."""

from pathlib import Path

import torch

from nanokv.buffer import bytes_held, n_kept
from nanokv.chat import Chat, decode, encode_chat, leading_ids, read_chat, stop_ids
from nanokv.config import read_config
from nanokv.generate import generate
from nanokv.load import read_weights
from nanokv.methods import find
from nanokv.options import build
from nanokv.trace import trace

TEXT = Path(__file__).parent / "demo.txt"
QUESTION = "What is the code for the instrument room?"
METHODS = ("full", "sliding_window", "h2o", "counter_causal", "counter_causal_fast")
SHOWN = "counter_causal"  # whose trace becomes the page


def question_ids(chat: Chat):
    """(ids of TEXT and QUESTION in the chat template, how many of them come before the text)."""
    messages = [{"role": "user", "content": TEXT.read_text(encoding="utf-8") + "\n" + QUESTION}]
    return encode_chat(chat, messages), leading_ids(chat, messages)


def demo(folder, say, progress):
    """Answer QUESTION under each of METHODS at a quarter of the rows. Returns (the trace of SHOWN, the tokenizer).

    `say(line)` gets the table as it grows; `progress(name)` returns an `on_chunk` for one run.
    """
    cfg, chat = read_config(folder), read_chat(folder)
    weights = read_weights(folder, cfg)
    ids, n_system = question_ids(chat)
    budget = len(ids) // 4
    say(f"{Path(folder).name}, float32 on the CPU; {len(ids)} prompt tokens, budget {budget} rows, h = {budget // 4}")
    say(f"Question: {QUESTION}")
    say(f"\n{'method':<20} {'rows':>5} {'peak':>5} {'MiB':>6} {'prefill':>8} {'score':>7} {'decode':>7}  answer")
    shown = None
    for name in METHODS:
        plan, options = build(find(name), budget, n_system=n_system)
        run = generate(weights, cfg, ids, plan, 32, stop_ids(cfg, chat), n_ids=chat.n_ids, on_chunk=progress(name))
        text = decode(chat, run.output_ids)
        say(row(name, run, text))
        if name == SHOWN:
            shown = trace(run, plan, str(folder), name, options, torch.float32, text)
    return shown, chat


def row(name: str, run, text: str) -> str:
    s, kv = run.seconds, run.kv
    numbers = f"{n_kept(kv):>5} {kv.peak_rows:>5} {bytes_held(kv) / 2**20:>6.1f}"
    times = f"{s['prefill']:>7.1f}s {s['score']:>6.1f}s {s['decode']:>6.1f}s"
    return f"{name:<20} {numbers} {times}  {' '.join(text.split())}"
