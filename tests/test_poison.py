"""Memory nobody wrote, and rows that were evicted, may hold anything, even NaN: nothing of it reaches an output."""

import pytest
import torch

from nanokv import buffer
from nanokv.buffer import new_buffer, parts
from nanokv.compact import compact
from nanokv.generate import generate
from nanokv.load import random_weights, tiny_config
from nanokv.methods import find
from nanokv.options import build
from nanokv.passes import causal_pass

IDS = torch.randint(97, (1, 40), generator=torch.Generator().manual_seed(6))
NAN = float("nan")


def poison_new_blocks(monkeypatch):
    """Every block that buffer.py allocates starts as NaN (positions and ids as a large number)."""

    def filled(make):
        def f(*args, **kwargs):
            x = make(*args, **kwargs)
            return x.fill_(NAN) if x.is_floating_point() else x.fill_(10**6)

        return f

    class Torch:
        empty = staticmethod(filled(torch.empty))

        def __getattr__(self, name):
            return getattr(torch, name)

    monkeypatch.setattr(buffer, "torch", Torch())
    monkeypatch.setattr(torch.Tensor, "new_empty", filled(torch.Tensor.new_empty))


def ragged_run(weights, cfg, poison_evicted=False):
    """Two evictions, other rows in every head; returns what the pass gives after each."""
    rng = torch.Generator().manual_seed(3)
    kv, out = new_buffer(cfg, 20), []
    for start in (0, 16):
        out.append(causal_pass(weights, cfg, kv, IDS[:, start : start + 16]))
        kv.shared = False
        for layer in range(cfg.n_layer):
            pos = buffer.view(kv, layer)[2]
            keep = (torch.rand(1, 2, pos.shape[2], generator=rng) < 0.5) & (pos >= 0)
            for heads, k, v, _ in parts(kv, layer) if poison_evicted else ():
                for x in (k, v):
                    x[~keep[:, heads, : x.shape[2]]] = NAN
            compact(kv, layer, keep, room=2)
    out += [causal_pass(weights, cfg, kv, IDS[:, i : i + 1]) for i in range(32, 40)]
    return torch.cat(out, dim=1)


def test_unwritten_memory_reaches_no_output(monkeypatch):
    cfg = tiny_config()
    weights = random_weights(cfg)
    clean = ragged_run(weights, cfg)
    poison_new_blocks(monkeypatch)
    assert new_buffer(cfg, 4).layers[0][0]["v"].block.isnan().all()
    assert torch.equal(ragged_run(weights, cfg), clean) and clean.isfinite().all()


def test_evicted_rows_reach_no_output_even_when_they_are_nan():
    cfg = tiny_config()
    weights = random_weights(cfg)
    assert torch.equal(ragged_run(weights, cfg, poison_evicted=True), ragged_run(weights, cfg))


@pytest.mark.parametrize("name", ["counter_causal", "counter_causal_fast", "h2o", "tova", "h2o_released", "random"])
def test_no_method_reads_unwritten_memory(monkeypatch, name):
    cfg = tiny_config()
    weights = random_weights(cfg)
    plan, _ = build(find(name), 12, 5, protect="none")

    def run():
        done = generate(weights, cfg, IDS[0].tolist(), plan, 12)
        assert all(s.isfinite().sum() >= s.numel() - s.shape[1] for r in done.refreshes for s in r.scores)
        return done.output_ids, [r.keep for r in done.refreshes]

    clean = run()
    poison_new_blocks(monkeypatch)
    ids, kept = run()
    assert ids == clean[0] and len(kept) == len(clean[1]) > 5
    assert all(torch.equal(a, b) for old, new in zip(clean[1], kept) for a, b in zip(old, new))
