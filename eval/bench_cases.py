"""The lines of eval/bench.py: what runs, what it is compared with, and the least it could take."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from nanokv.buffer import n_kept, new_buffer
from nanokv.config import Config
from nanokv.demo import TEXT
from nanokv.evict import Protection, Seen
from nanokv.generate import CHUNK, generate
from nanokv.methods import find
from nanokv.model import Weights, unembed
from nanokv.options import build
from nanokv.passes import causal_pass

BOTH = ("float32", "bfloat16")
N_DECODE = 16  # tokens decoded for one figure


@dataclass
class Setup:
    weights: Weights
    cfg: Config
    ids: list
    matrix_rate: float  # multiply-adds x 2 a second
    bandwidth: float  # bytes a second


@dataclass
class Line:
    """`run(setup)` and `base(setup)` give seconds; `peer` names the peer's case, with `n` tokens and `budget`."""

    name: str
    run: Callable
    n: int
    budget: int = 0
    peer: str | None = None
    base: Callable | None = None
    base_name: str | None = None
    floor: Callable | None = None
    dtypes: tuple = BOTH


def long_text_ids(chat, encode_raw, n: int = 33000) -> list:
    """The demo text over and over: at least n ids."""
    once = encode_raw(chat, TEXT.read_text(encoding="utf-8"))
    return (once * (n // len(once) + 1))[:n]


def timed(f) -> float:
    start = time.perf_counter()
    f()
    return time.perf_counter() - start


def filled(setup: Setup, n: int, room: int = 0, watch=None):
    """(a buffer that has read the first n ids, the last logits); `watch(kv)` gives the hooks."""
    kv = new_buffer(setup.cfg, n + room, setup.weights.embed.dtype)
    hooks = watch(kv) if watch else None
    x = None
    for start in range(0, n, CHUNK):
        x = causal_pass(
            setup.weights, setup.cfg, kv, torch.tensor([setup.ids[start : min(n, start + CHUNK)]]), hooks=hooks
        )
    return kv, unembed(setup.weights, x[:, -1:])[0, 0]


def prefill(n: int):
    return lambda setup: timed(lambda: filled(setup, n))


def decode(n: int):
    def run(setup):
        kv, _ = filled(setup, n, N_DECODE)
        step = torch.tensor([setup.ids[:1]])
        return (
            timed(
                lambda: [
                    unembed(setup.weights, causal_pass(setup.weights, setup.cfg, kv, step)) for _ in range(N_DECODE)
                ]
            )
            / N_DECODE
        )

    return run


def whole(method: str, n: int, budget: int, **more):
    """Prefill and the one refresh after it."""

    def run(setup):
        plan, _ = build(find(method), budget, once=True, **more)
        return timed(lambda: generate(setup.weights, setup.cfg, setup.ids[:n], plan, max_new_tokens=1))

    return run


def refresh_only(n: int, name: str, **settings):
    """One scoring of n held rows, the causal passes that it needs not counted."""

    def run(setup):
        plan, _ = build(find(name), n - 1, settings=settings)
        seen = Seen(n - 1, Protection(), n)
        kv, _ = filled(setup, n, watch=lambda kv: plan.watch(setup.weights, setup.cfg, kv, seen))
        return timed(lambda: plan.score(setup.weights, setup.cfg, kv, seen))

    return run


def prefill_floor(n: int):
    """Weights' multiplications for n tokens, causal attention's, and one row of the output head."""

    def seconds(setup):
        cfg, w = setup.cfg, setup.weights.layers[0]
        per_token = sum(x.numel() for x in (w.w_q, w.w_k, w.w_v, w.w_o, w.w_gate, w.w_up, w.w_down))
        attention = cfg.n_head * cfg.d_head * n * n  # both products, half of the square
        return 2 * cfg.n_layer * (per_token * n + attention) / setup.matrix_rate

    return seconds


def decode_floor(n: int):
    """Every weight and every cached row read once."""

    def seconds(setup):
        cfg, w = setup.cfg, setup.weights.layers[0]
        numbers = sum(x.numel() for x in (w.w_q, w.w_k, w.w_v, w.w_o, w.w_gate, w.w_up, w.w_down)) * cfg.n_layer
        numbers += setup.weights.unembed.numel() + 2 * cfg.n_layer * cfg.n_kv_head * cfg.d_head * n
        return numbers * setup.weights.embed.dtype.itemsize / setup.bandwidth

    return seconds


def stream(n: int, budget: int, every: int):
    """Seconds per token of the last quarter of a long prompt, divided by those of the first: 1 is flat."""

    def run(setup):
        marks = {}
        plan, _ = build(find("counter_causal_fast"), budget, every)

        def on_chunk(done, total):
            marks[done] = time.perf_counter()

        run = generate(setup.weights, setup.cfg, setup.ids[:n], plan, 1, on_chunk=on_chunk)
        assert run.kv.peak_rows <= budget + every and n_kept(run.kv) <= budget + every
        first, last = marks[n // 4] - marks[every], marks[n] - marks[3 * n // 4]
        return last / first * (n // 4 - every) / (n // 4)

    return run


LINES = [
    Line("prefill 2048", prefill(2048), 2048, peer="prefill", floor=prefill_floor(2048)),
    Line("prefill 4096", prefill(4096), 4096, peer="prefill", floor=prefill_floor(4096)),
    Line("decode at 2048 rows, a token", decode(2048), 2048, N_DECODE, peer="decode", floor=decode_floor(2048)),
    *[
        Line(f"{name} 4096 -> 128", whole(name, 4096, 128, **more), 4096, 128, peer=name, floor=prefill_floor(4096))
        for name, more in (("snapkv", {}), ("expected_attention", {}), ("criticalkv", {}))
    ],
    Line("h2o 2048 -> 1024", whole("h2o", 2048, 1024), 2048, 1024, peer="h2o", dtypes=("float32",)),
    Line(
        "counter-causal refresh 4096",
        refresh_only(4096, "counter_causal"),
        4096,
        base=prefill(4096),
        base_name="our prefill",
    ),
    Line(
        "fast refresh 4096",
        refresh_only(4096, "counter_causal_fast"),
        4096,
        base=prefill(4096),
        base_name="our prefill",
    ),
    Line(
        "last=15 refresh 4096",
        refresh_only(4096, "counter_causal", last=15),
        4096,
        base=refresh_only(4096, "counter_causal"),
        base_name="all 30 layers",
    ),
    Line(
        "window=512 refresh 16384",
        refresh_only(16384, "counter_causal", window=512),
        16384,
        base=refresh_only(8192, "counter_causal", window=512),
        base_name="8192 rows",
        dtypes=("float32",),
    ),
    Line(
        "lore_e 4096 -> 128", whole("lore_e", 4096, 128), 4096, 128, base=whole("andpro", 4096, 128), base_name="andpro"
    ),
    Line("stream 32768, last / first quarter", stream(32768, 512, 128), 32768, dtypes=("float32",)),
]
