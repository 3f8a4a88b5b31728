"""The drive loop: Algorithms 1 and 2 of arXiv 2607.27600. Prompt and answer go through the same refresh rule."""

import time
from dataclasses import dataclass, field

import torch

from nanokv import UserError
from nanokv.buffer import KVBuffer, new_buffer
from nanokv.config import Config
from nanokv.evict import Plan, Seen, refresh
from nanokv.hooks import chain, looks_inside
from nanokv.masks import causal
from nanokv.model import Weights, unembed
from nanokv.passes import causal_pass
from nanokv.sample import greedy

CHUNK = 512  # prompt tokens read at once: bounds the memory of masks and activations
CHUNK_INSIDE = 256  # the same where a hook sees all heads' scores: a third faster on a CPU


@dataclass
class Run:
    """What happened. `stop` is "eos", "until", "max_new_tokens" or "context"; `seconds`: prefill, score, decode."""

    kv: KVBuffer
    prompt_ids: list
    seen: Seen
    chunk: int = CHUNK
    output_ids: list = field(default_factory=list)
    stop: str = "max_new_tokens"
    refreshes: list = field(default_factory=list)
    seconds: dict = field(default_factory=lambda: {"prefill": 0.0, "score": 0.0, "decode": 0.0})


def generate(
    weights: Weights,
    cfg: Config,
    ids: list,
    plan: Plan | None = None,
    max_new_tokens: int = 64,
    stop_ids=(),
    pick=greedy,
    rng: torch.Generator | None = None,
    n_ids: int | None = None,
    mask=causal,
    hooks: dict | None = None,
    on_token=None,
    on_chunk=None,
    until=None,
) -> Run:
    """Read the prompt `ids` and answer it under `plan`. Returns a Run.

    `pick(logits [v], rng) -> int` chooses a token among the first `n_ids` (the tokenizer's, where the checkpoint's
    vocabulary is padded). `on_chunk(n_read, n)` and `on_token(id)` are called as things happen. A token in `stop_ids`
    ends the answer and is not part of it; `until(output_ids) -> bool` is asked after each token and ends it too.
    Raises UserError for an empty prompt, or one that does not fit.
    """
    plan = plan or Plan()
    run = begin(weights, cfg, ids, plan, max_new_tokens, stop_ids, rng, mask)
    infer = reader(weights, cfg, plan, run, n_ids, hooks)
    prefill(weights, cfg, plan, run, infer, max_new_tokens, on_chunk)
    decode(weights, cfg, plan, run, infer, max_new_tokens, pick, on_token, until)
    return run


def begin(weights, cfg, ids, plan: Plan, max_new_tokens: int, stop_ids=(), rng=None, mask=causal) -> Run:
    """A run that has read nothing yet: an empty buffer of the size it will need."""
    check(cfg, ids, plan, max_new_tokens)
    kv = new_buffer(cfg, rows_needed(len(ids), plan, max_new_tokens), weights.embed.dtype, weights.embed.device)
    seen = Seen(plan.budget or 0, plan.protection, len(ids), plan.released_loop, frozenset(stop_ids), rng, mask)
    return Run(kv, list(ids), seen)


def reader(weights, cfg, plan: Plan, run: Run, n_ids: int | None = None, hooks: dict | None = None):
    """infer(tokens): read them behind what the run holds; the last one's logits go to run.seen (Algorithm 2)."""
    hooks = chain(hooks, plan.watch(weights, cfg, run.kv, run.seen) if plan.watch else None)
    run.chunk = min(CHUNK, CHUNK_INSIDE) if looks_inside(hooks) else CHUNK

    def infer(tokens):
        ids = torch.tensor([tokens], device=weights.embed.device)
        x = causal_pass(weights, cfg, run.kv, ids, run.seen.mask, hooks)
        if plan.observe:
            plan.observe(weights, cfg, run.kv, run.seen, x)
        run.seen.logits = unembed(weights, x[:, -1:])[0, 0, :n_ids]

    return infer


def prefill(weights, cfg, plan: Plan, run: Run, infer, max_new_tokens: int, on_chunk=None):
    """Algorithm 1, lines 3-8: the prompt in chunks that end where a refresh is due."""
    n = len(run.prompt_ids)
    while run.kv.n_seen < n:
        start = run.kv.n_seen
        until_refresh = plan.every - start % plan.every if plan.every else run.chunk
        with stopwatch(run, "prefill"):
            infer(run.prompt_ids[start : start + min(run.chunk, until_refresh)])
        due = run.kv.n_seen % plan.every == 0 if plan.every else run.kv.n_seen == n
        if due or (plan.released_loop and run.kv.n_seen == n):
            maybe_refresh(weights, cfg, plan, run, max_new_tokens)
        if on_chunk:
            on_chunk(run.kv.n_seen, n)


def decode(weights, cfg, plan: Plan, run: Run, infer, max_new_tokens: int, pick=greedy, on_token=None, until=None):
    """Algorithm 1, lines 10-15: one token at a time, a refresh every h of them."""
    while len(run.output_ids) < max_new_tokens:
        token = pick(run.seen.logits, run.seen.rng)
        if token in run.seen.stop_ids:
            run.stop = "eos"
            return
        run.output_ids.append(token)
        if on_token:
            on_token(token)
        if until and until(run.output_ids):
            run.stop = "until"
            return
        if len(run.output_ids) == max_new_tokens:
            return
        if plan.score is None and run.kv.n_seen == cfg.n_positions:
            run.stop = "context"
            return
        with stopwatch(run, "decode"):
            infer([token])
        if plan.every and run.kv.n_seen % plan.every == 0:
            maybe_refresh(weights, cfg, plan, run, max_new_tokens)


def maybe_refresh(weights, cfg, plan: Plan, run: Run, max_new_tokens: int):
    if plan.score is None:
        return
    with stopwatch(run, "score"):
        room = plan.every + plan.branch_rows if plan.every else max_new_tokens
        done = refresh(weights, cfg, run.kv, plan, run.seen, room)
    if done:
        run.refreshes.append(done)


def check(cfg: Config, ids: list, plan: Plan, max_new_tokens: int = 0):
    """UserError when this prompt cannot be run under this plan."""
    if not ids:
        raise UserError("the prompt is empty")
    if any(isinstance(i, list | tuple) for i in ids):
        raise UserError(f"{len(ids)} prompts at once: one prompt a run, a flat list of ids; there is no padding")
    if max(ids) >= cfg.n_vocab or min(ids) < 0:
        raise UserError(f"token ids from {min(ids)} to {max(ids)} in the prompt; the checkpoint has {cfg.n_vocab}")
    if max_new_tokens < 0:
        raise UserError(f"--max-new-tokens must be at least 0, not {max_new_tokens}")
    if plan.score is None:
        if len(ids) > cfg.n_positions:
            raise UserError(
                f"the prompt has {len(ids)} tokens, the model takes {cfg.n_positions}: choose another --method"
            )
        return
    if plan.budget is None or plan.budget < 1:
        raise UserError(f"--budget must be at least 1, not {plan.budget}")
    if plan.every is not None and plan.every < 1:
        raise UserError(f"--every must be at least 1, not {plan.every}")
    must = plan.protection.leading + plan.protection.newest(plan.budget)
    if must > plan.budget and not plan.budget_excludes_protected:
        raise UserError(
            f"{must} rows are protected, which a budget of {plan.budget} does not hold (--protect, --budget)"
        )


def rows_needed(n_prompt: int, plan: Plan, max_new_tokens: int) -> int:
    """Rows a layer holds at most: everything, J + h, or (once) the prompt before its refresh."""
    if plan.score is None:
        return n_prompt + max_new_tokens
    if plan.every is None:
        return n_prompt + (max_new_tokens if n_prompt <= plan.budget else plan.branch_rows)
    return plan.branch_rows + min(n_prompt + max_new_tokens, plan.budget + plan.every)


class stopwatch:
    """Adds the seconds spent inside to run.seconds[what]."""

    def __init__(self, run: Run, what: str):
        self.seconds, self.what = run.seconds, what
        self.cuda = run.kv.ids.block.is_cuda

    def __enter__(self):
        self.start = time.perf_counter()

    def __exit__(self, *_):
        if self.cuda:
            torch.cuda.synchronize()  # a GPU is asked first and works later
        self.seconds[self.what] += time.perf_counter() - self.start
