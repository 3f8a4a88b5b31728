"""Lookahead: a few short continuations as one tree in the prompt's own buffer (LORE-KV, arXiv 2610.07643, Eq. 1).

The M trajectories are branches that share the prompt's rows. Each step feeds M tokens at one position, and a mask
lets a token see the prompt and its own branch:

    slots     prompt          a1 b1  a2 b2        two branches, two steps
    a2 sees   # # # ... #     #  .   #  .
    b2 sees   # # # ... #     .  #   .  #

Afterwards the branches are dropped and buffer, ids, n_seen and every other random state are what they were.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import torch

from nanokv import UserError
from nanokv.buffer import mark, rewind
from nanokv.hooks import Record, chain
from nanokv.masks import both, causal
from nanokv.model import unembed
from nanokv.passes import causal_pass


@dataclass
class Lookahead:
    """M trajectories: `ids`, `logp` (log q of each token, nats) and `entropy` (of the q it came from) as [m][t].

    `q[layer][m]` [h g t d] are the rotated queries of its tokens; `k[layer][m]`, `v[layer][m]` [h t d] their rows.
    """

    ids: list
    logp: list
    entropy: list
    q: list
    k: list
    v: list


def lookahead(
    weights, cfg, kv, logits, m, n_steps, draw, stop_ids=(), given=None, hooks=None, temperature=1.0, mask=causal
):
    """Continue the prompt m times by up to n_steps tokens from the cache as it is.

    `logits` [v] are the prompt's last ones. `draw(q [m v]) -> ids [m]` picks from q = softmax(logits / temperature);
    `given` [m][t] replays tokens instead. A token in `stop_ids` ends its branch and is its last.
    `hooks` and `mask` act as in the causal pass. UserError for a token that is none.
    """
    check(m, n_steps, given, len(logits), temperature)
    before = mark(kv)
    m = len(given) if given else m
    look = Lookahead(
        *([[] for _ in range(m)] for _ in range(3)),
        *([[[] for _ in range(m)] for _ in range(cfg.n_layer)] for _ in range(3)),
    )
    alive, branch_of_row = list(range(m)), []
    logp = log_q(logits, temperature).expand(m, -1)  # [m v]
    step = 0
    while alive:
        tokens = torch.tensor([given[i][step] for i in alive], device=logp.device) if given else draw(logp.exp())
        note_tokens(look, alive, tokens, logp)
        branch_of_row += alive
        record = Record("q", "k", "v")
        pos = torch.full((len(alive),), kv.n_seen + step, device=logp.device)
        own = branches(torch.tensor(alive), torch.tensor(branch_of_row), kv.n_seen)
        x = causal_pass(weights, cfg, kv, tokens[None], both(mask, own), chain(record.hooks, hooks), pos)
        note_rows(look, alive, record)
        step += 1
        lasts = [i for i in alive if step < (len(given[i]) if given else n_steps) and look.ids[i][-1] not in stop_ids]
        row = [alive.index(i) for i in lasts]
        logp = log_q(unembed(weights, x[:, row])[0, :, : len(logits)], temperature)
        alive = lasts
    rewind(kv, before)
    return look


def check(m, n_steps, given, n_ids: int, temperature):
    if not given and (m < 1 or n_steps < 1):
        raise UserError(f"M={m} and T={n_steps}: a lookahead needs at least one token of one trajectory")
    if not temperature > 0:
        raise UserError(f"a lookahead's temperature is above 0, not {temperature}")
    wrong = [i for trajectory in given or () for i in trajectory if not 0 <= i < n_ids]
    if wrong:
        raise UserError(f"the lookahead to replay has token {wrong[0]}; there are {n_ids}")


def log_q(logits, temperature: float):
    """Log-probabilities of what is drawn from, and so of what is scored: logits [... v] -> float32."""
    return (logits.float() / temperature).log_softmax(dim=-1)


def branches(branch_of_query, branch_of_row, n_seen: int):
    """Of the rows from n_seen on, which belong to the branches `branch_of_row`, only the query's own; all before."""

    def mask(q_pos, k_pos):
        tried = k_pos >= n_seen
        which = (tried.cumsum(dim=-1) - 1).clamp(min=0)  # the first, second ... row tried, wherever a head has it
        branch = branch_of_row.to(k_pos.device)[which]  # [b h s]
        own = branch[:, :, None] == branch_of_query.to(k_pos.device)[:, None]
        return own | ~tried[:, :, None]

    return mask


def note_tokens(look: Lookahead, alive: list, tokens, logp):
    """Keep what was drawn, its log-probability, and the entropy of what it was drawn from. logp [m v]."""
    entropy = -(logp.exp() * logp.masked_fill(logp == -torch.inf, 0)).sum(dim=-1)
    chosen = logp.gather(-1, tokens[:, None])[:, 0]
    for i, token, lq, h in zip(alive, tokens.tolist(), chosen.tolist(), entropy.tolist()):
        look.ids[i].append(token)
        look.logp[i].append(lq)
        look.entropy[i].append(h)


def note_rows(look: Lookahead, alive: list, record: Record):
    """Keep each branch's query, key and value of this step: one more row on the t axis."""
    for name, axis in (("q", 2), ("k", 1), ("v", 1)):
        for layer, x in record.seen[name].items():
            kept = getattr(look, name)[layer]
            for row, i in enumerate(alive):
                new = x[0].narrow(axis, row, 1)
                kept[i] = new if isinstance(kept[i], list) else torch.cat((kept[i], new), dim=axis)


def ancestral(rng: torch.Generator):
    """Draw from q itself; rng is the lookahead's own."""

    def draw(probs):
        return torch.multinomial(probs, 1, generator=rng)[:, 0]

    return draw


def most_likely(probs):
    """The greedy continuation: every branch takes its largest probability."""
    return probs.argmax(dim=-1)


def read_trajectories(path) -> list:
    """The `trajectories` [m][t] of a JSON file, to be replayed."""
    try:
        given = json.loads(Path(path).read_text(encoding="utf-8"))["trajectories"]
    except (OSError, ValueError, KeyError, TypeError) as e:
        raise UserError(f"{path} is not a lookahead file, an object with `trajectories`: {e}") from None
    if not given or not all(given) or not all(isinstance(i, int) for trajectory in given for i in trajectory):
        raise UserError(f"{path}: `trajectories` is a list of lists of token ids, none empty")
    return given
