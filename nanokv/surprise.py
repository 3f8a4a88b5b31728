"""Counter-causal surprise (arXiv 2607.27600, Eq. 1): keep what the future does not give away.

A second pass over the cached keys and values looks only ahead and predicts every held token; a token it predicts well
may go. Row i's residual stream starts from x_i itself, so x_i also votes for itself; `start` and `read` are for
looking at that. Every default is the paper's.
"""

from typing import Literal

import torch

from nanokv import UserError
from nanokv.buffer import held_ids, note, notes, view
from nanokv.masks import both, nearest_future, within
from nanokv.model import unembed
from nanokv.passes import counter_causal_pass
from nanokv.scores import mean_over_span

ROWS = 512  # rows of the second pass at a time: they do not depend on each other, so this only bounds memory
LOGPROB_ROWS = 64  # the same where a row needs the whole vocabulary


def watch_resid(weights, cfg, kv, seen, *, last=None):
    """Keeps what enters the first of the `last` layers that will run, one row [e] a token, beside that layer's keys."""
    check_last(cfg, last)
    if last is None or last == cfg.n_layer:
        return {}
    first_layer = cfg.n_layer - last

    def keep(layer, x):
        if layer == first_layer:
            note(kv, layer, "resid", x[:, None])

    return {"resid_in": keep}


def surprise(
    weights,
    cfg,
    kv,
    seen,
    *,
    value: Literal["logit", "logprob"] = "logit",
    start: Literal["token", "blind"] = "token",
    read: Literal["self", "next"] = "self",
    last=None,
    mlp=True,
    min_gap=0,
    span=1,
    window=None,
    ids: Literal["paper", "released"] | None = None,
    mask=None,
):
    """s_i = -logit (or -log p) of x_i given what comes after it: float32 [b 1 s], +inf where nothing comes after.

    value    "logit": the raw float32 logit of x_i, as released; "logprob": its log-probability
    start    "token": row i starts from x_i's embedding; "blind": from the mean embedding, so that x_i cannot leak
    read     "self": row i scores x_i; "next": row i+1 (the next held one) does
    last     how many of the last layers run, from their recorded input; None: all; 1 is the fast form
    mlp      whether they run their mlp (the fast form skips it)
    min_gap  hides that many nearest future tokens
    span     mean over that many neighbouring positions
    window   only the nearest `window` future tokens, which makes the cost linear
    ids      "paper": row i belongs to x_i (Algorithm 2, line 5); "released": see `paired_ids`; None: as the loop does
    mask     a mask of your own in place of the counter-causal one
    """
    check(cfg, kv, value, start, read, ids, last, min_gap, window)
    ahead = mask or nearest_future(min_gap, window)
    layers = range(cfg.n_layer - (last or cfg.n_layer), cfg.n_layer)
    pos = view(kv, 0)[2][0, 0]  # [s]
    x_ids = paired_ids(kv, pos, seen.n_prompt) if is_released(seen, ids) else held_ids(kv, 0)[0, 0]
    targets = x_ids if read == "self" else x_ids.roll(1)  # row i scores x_i, or the token held before it
    s = second_pass(weights, cfg, kv, pos, x_ids, targets, start, ahead, layers, mlp, value)
    if read == "next":
        s = torch.cat((s[1:], s.new_full((1,), torch.inf)))
    return mean_over_span(s[None, None], pos[None, None], span) if span > 1 else s[None, None]


def second_pass(weights, cfg, kv, pos, x_ids, targets, start, ahead, layers, mlp, value):
    """-logit (or -log p) of targets [s] at the held rows pos [s]: float32 [s], +inf where no layer sees any row."""
    windows = [cfg.windows[layer] for layer in layers]
    reach = ahead if None in windows else both(ahead, within(max(windows)))  # what any layer that runs may see
    blind = weights.embed.mean(dim=0, dtype=torch.float32).to(weights.embed.dtype) if start == "blind" else None
    score, sees = [], []
    for rows in torch.arange(len(pos), device=pos.device).split(ROWS if value == "logit" else LOGPROB_ROWS):
        x = first_input(weights, kv, layers[0], blind, x_ids, rows)  # [1 r e]
        x = counter_causal_pass(weights, cfg, kv, x, pos[rows], ahead, layers, mlp)
        score.append(read_out(weights, x, targets[rows], value))
        sees.append(reach(pos[None, rows], pos[None, None])[0, 0].any(dim=-1))
    return -torch.cat(score).masked_fill(~torch.cat(sees), -torch.inf)  # nothing ahead: maximum surprise


def is_released(seen, ids) -> bool:
    return seen.released_loop if ids is None else ids == "released"


def paired_ids(kv, pos, n_prompt: int):
    """The released code's bookkeeping: a row of the *generated* text is paired with the token sampled after it.

    Algorithm 2 of the paper pairs every row with its own token, and so do the released code's prompt rows. The newest
    row's partner is not known yet and does not matter: it stays whatever it scores. pos [s] -> ids [s].
    """
    partner = torch.where(pos >= n_prompt, pos + 1, pos).clamp(max=kv.n_seen - 1)
    return kv.ids.block[0, 0][partner]


def first_input(weights, kv, first_layer: int, blind, ids, rows):
    """What enters the first layer that runs, for those rows: [1 r e]; `blind` [e] for all of them, if given."""
    if blind is not None:
        return blind.expand(1, len(rows), -1)
    if first_layer == 0:
        return weights.embed[ids[rows]][None]
    return notes(kv, first_layer, "resid")[:, 0, rows]


def read_out(weights, x, ids, value: str):
    """Logit (or log-probability) of token ids[r] at row r: x [1 r e], ids [r] -> float32 [r]."""
    if value == "logprob":
        logits = unembed(weights, x)[0]
        return logits.gather(-1, ids[:, None])[:, 0] - logits.logsumexp(dim=-1)
    return (x[0].float() * weights.unembed[ids].float()).sum(dim=-1)  # one dot product, not the vocabulary


def check(cfg, kv, value, start, read, ids, last, min_gap, window):
    if not kv.shared:
        raise UserError("counter-causal surprise needs the same tokens in every layer and head; these differ already")
    for name, given, choices in (
        ("value", value, ("logit", "logprob")),
        ("start", start, ("token", "blind")),
        ("read", read, ("self", "next")),
        ("ids", ids, (None, "paper", "released")),
    ):
        if given not in choices:
            raise UserError(f"{name} is {' or '.join(filter(None, choices))}, not {given!r}")
    check_last(cfg, last)
    if window is not None and not isinstance(window, int):
        raise UserError(f"window is a whole number, not {window!r}")
    if start == "blind" and last not in (None, cfg.n_layer):
        raise UserError("start=blind begins below the first layer: it needs all layers, not last=" + str(last))
    if min_gap < 0 or (window is not None and window <= min_gap):
        raise UserError(f"min_gap {min_gap} and window {window}: need 0 <= min_gap < window")


def check_last(cfg, last):
    if last is not None and not (isinstance(last, int) and 1 <= last <= cfg.n_layer):
        raise UserError(f"last is a whole number from 1 to the {cfg.n_layer} layers, not {last!r}")
