"""Our kept rows against those of kvpress 0.5.5 (stored by tests/golden/make_kvpress.py), head by head.

Its conventions are met by options and protection, its AdaKV by a budget rule; the stored rows are never touched.
"""

import copy
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from golden.tiny import write_checkpoint
from safetensors.torch import load_file

from nanokv.buffer import new_buffer
from nanokv.config import read_config
from nanokv.evict import Seen, refresh
from nanokv.hooks import chain
from nanokv.load import read_weights
from nanokv.methods import find
from nanokv.options import build
from nanokv.passes import causal_pass

GOLDEN = Path(__file__).resolve().parent / "golden"
SETUP = json.loads((GOLDEN / "kvpress.json").read_text(encoding="utf-8"))
BUDGETS = {int(n): budgets for n, budgets in SETUP["budgets"].items()}
STORED = {n: load_file(GOLDEN / f"kvpress_{n}.safetensors") for n in BUDGETS}
CASES = [(n, budget) for n, budgets in BUDGETS.items() for budget in budgets]
WINDOW = {"window": 64, "kernel": 5, "pool": "avg"}


def kvpress_safeguard(scores, budget, must, held, alpha=0.2):
    """kvpress's AdaKV: each head's best int(alpha x budget) rows, protected ones counted, and the layer's best others.

    Our `ada` shares out the unprotected rows and rounds per head, so that it cannot express this. [b h] per layer.
    """
    counts = []
    for s, m in zip(scores, must):
        s = s.masked_fill(m, torch.inf)
        safe = s.topk(max(1, int(alpha * budget)), dim=-1).indices
        s = s.scatter(-1, safe, torch.inf)
        best = s.flatten().topk(s.shape[1] * budget).indices
        counts.append(torch.bincount(best // s.shape[2], minlength=s.shape[1])[None])
    return counts


# name: (what it takes to follow kvpress's conventions: build's arguments, a budget rule in place of the preset's)
METHODS = {
    "snapkv": ({"settings": WINDOW}, None),
    "tova": ({"protect": "recent:1"}, None),
    "expected_attention": ({}, None),
    "criticalkv": ({"settings": {**WINDOW, "stage_of": "budget"}}, None),
    "keydiff": ({}, None),
    "key_norm": ({}, None),
    "streaming_llm": ({}, None),
    "adakv": ({"settings": WINDOW}, kvpress_safeguard),
}


def plan_of(name: str, budget: int):
    arguments, allocate = METHODS[name]
    plan, _ = build(find(name), budget, once=True, **arguments)
    return replace(plan, allocate=allocate) if allocate else plan


@torch.inference_mode()
def fill(weights, cfg, ids, chunk=512):
    """A buffer with ids [n] read, and what each method's watch recorded: (weights, cfg, kv, {name: record})."""
    kv = new_buffer(cfg, len(ids))
    seen = {name: Seen(0, plan_of(name, 100).protection, len(ids)) for name in METHODS}
    plans = {name: plan_of(name, 100) for name in METHODS}
    watches = [plan.watch(weights, cfg, kv, seen[name]) for name, plan in plans.items() if plan.watch]
    for chunk in torch.tensor(ids).split(chunk):
        causal_pass(weights, cfg, kv, chunk[None], hooks=chain(*watches))
    return weights, cfg, kv, {name: s.record for name, s in seen.items()}
