"""The peer's side of eval/bench.py, run by the peer's own python: transformers 5.2.0 with kvpress 0.5.5.

Reads one JSON request a line from stdin, {"case", "n", "budget", "dtype"}, and answers {"seconds"} on stdout.
"""

import json
import sys
import time
from pathlib import Path

import torch
from kvpress import CriticalKVPress, ExpectedAttentionPress, ObservedAttentionPress, SnapKVPress
from transformers import AutoModelForCausalLM, DynamicCache
from transformers.utils import logging

PRESSES = {
    "snapkv": lambda ratio: SnapKVPress(ratio),
    "expected_attention": lambda ratio: ExpectedAttentionPress(ratio),
    "criticalkv": lambda ratio: CriticalKVPress(SnapKVPress(ratio)),
    "h2o": lambda ratio: ObservedAttentionPress(ratio),
}


def load(folder: str, case: str, dtype: str, loaded: dict):
    attention = "eager" if case == "h2o" else "sdpa"  # observed attention needs the weights themselves
    key = attention, dtype
    if key not in loaded:
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype), attn_implementation=attention)
        loaded[key] = model.eval()
    return loaded[key]


@torch.inference_mode()
def seconds(model, ids, case: str, budget: int) -> float:
    """Seconds of a prefill (last position projected), of one decode step, or of a prefill under a press."""
    ids, cache = torch.tensor([ids]), DynamicCache()
    if case == "decode":
        model(ids, past_key_values=cache, logits_to_keep=1)
        start = time.perf_counter()
        for _ in range(budget):  # here: how many tokens
            model(ids[:, :1], past_key_values=cache, logits_to_keep=1)
        return (time.perf_counter() - start) / budget
    start = time.perf_counter()
    if case == "prefill":
        model(ids, past_key_values=cache, logits_to_keep=1)
    else:
        with PRESSES[case](1 - (budget + 0.5) / ids.shape[1])(model):
            model(ids, past_key_values=cache, logits_to_keep=1)
    return time.perf_counter() - start


def main():
    logging.disable_progress_bar()
    folder, threads = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(threads)
    all_ids, loaded = json.loads(Path(sys.argv[3]).read_text()), {}
    for line in sys.stdin:
        ask = json.loads(line)
        model = load(folder, ask["case"], ask["dtype"], loaded)
        took = seconds(model, all_ids[: ask["n"]], ask["case"], ask["budget"])
        print(json.dumps({"seconds": took}), flush=True)


if __name__ == "__main__":
    main()
