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
from nanokv.buffer import KVBuffer, mark, rewind
from nanokv.hooks import Record, chain
from nanokv.masks import causal
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


def lookahead(weights, cfg, kv: KVBuffer, logits, n_trajectories, n_steps, draw, stop_ids=(), given=None, hooks=None):
    """Continue the prompt n_trajectories times by up to n_steps tokens from the cache as it is.

    `logits` [v] are the prompt's last ones. `draw(probs [m v]) -> ids [m]` picks; `given` [m][t] replays tokens
    instead. A token in `stop_ids` ends its branch and is its last. `hooks` act as in the causal pass.
    """
    before = mark(kv)
    m = len(given) if given else n_trajectories
    look = Lookahead(
        *([[] for _ in range(m)] for _ in range(3)),
        *([[[] for _ in range(m)] for _ in range(cfg.n_layer)] for _ in range(3)),
    )
    alive, branch_of_row = list(range(m)), []
    logp = logits.float().log_softmax(dim=-1).expand(m, -1)  # [m v]
    step = 0
    while alive:
        tokens = torch.tensor([given[i][step] for i in alive], device=logp.device) if given else draw(logp.exp())
        note_tokens(look, alive, tokens, logp)
        branch_of_row += alive
        record = Record("q", "k", "v")
        pos = torch.full((len(alive),), kv.n_seen + step, device=logp.device)
        mask = branches(torch.tensor(alive), torch.tensor(branch_of_row))
        x = causal_pass(weights, cfg, kv, tokens[None], mask, chain(record.hooks, hooks), pos)
        note_rows(look, alive, record)
        step += 1
        lasts = [i for i in alive if step < (len(given[i]) if given else n_steps) and look.ids[i][-1] not in stop_ids]
        row = [alive.index(i) for i in lasts]
        logp = unembed(weights, x[:, row])[0, :, : len(logits)].log_softmax(dim=-1)
        alive = lasts
    rewind(kv, before)
    return look


def branches(branch_of_query, branch_of_row):
    """Causal, and of the newest rows, which belong to the branches `branch_of_row`, only those of the query's own."""

    def mask(q_pos, k_pos):
        prompt = torch.full((k_pos.shape[-1] - len(branch_of_row),), -1)
        branch_of_slot = torch.cat((prompt, branch_of_row)).to(k_pos.device)
        own = (branch_of_slot == -1) | (branch_of_slot == branch_of_query.to(k_pos.device)[:, None])  # [t s]
        return causal(q_pos, k_pos) & own

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


def ancestral(rng: torch.Generator, temperature: float = 1.0):
    """Draw from q itself (temperature 1: the score's mean is zero only then); rng is the lookahead's own."""

    def draw(probs):
        tempered = probs if temperature == 1 else probs.pow(1 / temperature)
        return torch.multinomial(tempered, 1, generator=rng)[:, 0]

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
