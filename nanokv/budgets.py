"""Budget rules: rows each layer and kv head keeps. `rule(scores, budget, must, held) -> counts`, [b h] a layer.

`scores`, `must` (protected rows) and `held` (slots that are not empty) are [b h s] per layer, the latter two bool.
Counts include the protected rows. Every rule gives out layers x heads x budget rows exactly, as far as the rows held
allow.
"""

import torch


def uniform(scores: list, budget: int, must: list, held: list) -> list:
    """The same for every layer and head."""
    return [torch.full(m.shape[:2], budget, device=m.device) for m in must]


def pyramid(scores: list, budget: int, must: list, held: list, *, pyramid_beta: int = 20) -> list:
    """PyramidKV (arXiv 2406.02069): free rows fall linearly from the first layer to the last.

    With k free rows on average the last layer gets k / β and the first 2k minus that; where no layer holds so many,
    the first gets all it holds and the last 2k minus that. Integer steps would give out more or fewer than L x k: the
    remainder goes by largest fraction, what a layer cannot hold to the others.
    """
    n_layer = len(must)
    free = [budget - int(m.sum(dim=-1).max()) for m in must]
    k = sum(free) / n_layer
    room = torch.tensor([int((in_use & ~m).sum(dim=-1).min()) for m, in_use in zip(must, held)])
    high = min(2 * k - k // pyramid_beta, max(k, int(room.max())))
    ramp = [high - i * 2 * (high - k) / (n_layer - 1) for i in range(n_layer)] if n_layer > 1 else [k]
    given = round_to_sum(torch.tensor(ramp), sum(free), room)
    return [m.sum(dim=-1) + int(n) for m, n in zip(must, given)]


def ada(scores: list, budget: int, must: list, held: list, *, ada_floor: float = 0.2) -> list:
    """Ada-KV (arXiv 2407.11550): within a layer, rows go to the heads that win the layer's top scores.

    Of each head's free rows the share `ada_floor` is its own, the rest follows its count among the layer's best;
    rounded by largest remainder, so that a layer gives out heads x budget exactly.
    """
    counts = []
    for s, m, in_use in zip(scores, must, held):
        n_must = m.sum(dim=-1)[0]
        k = budget - n_must  # [h]
        newest_first = s.masked_fill(m | ~in_use, -torch.inf)[0].mT.flip(0)  # [s h], so that ties go to the newer row
        best = torch.argsort(newest_first.flatten(), descending=True, stable=True)[: int(k.sum())]
        won = torch.bincount(best % s.shape[1], minlength=s.shape[1])
        share = (1 - ada_floor) * won + ada_floor * k
        given = round_to_sum(share, int(k.sum()), (in_use & ~m).sum(dim=-1)[0])
        counts.append((n_must + given.to(n_must.device))[None])
    return counts


def round_to_sum(share, total: int, room):
    """Whole numbers near `share` [n] that add up to `total`, none above `room` [n]: the largest remainders round up,
    what does not fit goes to those with room left, largest share first."""
    share, room = share.double().cpu(), room.cpu()
    given = torch.minimum(share.floor().long(), room)
    total = min(total, int(room.sum()))
    by_remainder = torch.argsort(share - share.floor(), descending=True, stable=True).tolist()
    by_share = torch.argsort(share, descending=True, stable=True).tolist()
    turn = by_remainder
    while int(given.sum()) < total:
        for i in turn:
            if int(given.sum()) < total and given[i] < room[i]:
                given[i] += 1
        turn = by_share
    return given
