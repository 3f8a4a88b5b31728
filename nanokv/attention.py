"""softmax(q k / sqrt(d)) v over the keys that a mask lets each query see: by the book, and the fast way beside it."""

import torch
import torch.nn.functional as F
from einops import rearrange

from nanokv.hooks import looks_inside, tap

BLOCK = 256  # query rows at once: torch's CPU kernel pays for every key a mask hides, so show it few


def attend(q, k, v, visible, layer: int = 0, hooks: dict | None = None, blocks: list | None = None):
    """What each query head reads: q [b h g t d], k, v [b h s d], visible [b h t s] bool (h may be 1) -> z as q.

    A row that may look at nothing gives zeros. A hook on scores or probs takes the explicit form; `blocks` are
    `blocks_of(visible)` where the caller has them already.
    """
    assert visible.dtype == torch.bool and visible.shape[-2:] == (q.shape[-2], k.shape[-2]), (
        f"mask {visible.dtype} {tuple(visible.shape)} for {q.shape[-2]} queries and {k.shape[-2]} keys"
    )
    if looks_inside(hooks):
        return attend_explicitly(q, k, v, visible, layer, hooks)
    return attend_in_blocks(q, k, v, visible, blocks)


def attend_explicitly(q, k, v, visible, layer: int = 0, hooks: dict | None = None):
    """By the book, with every score and probability formed in float32."""
    scores = tap(hooks, "scores", layer, scores_of(q, k))
    probs = tap(hooks, "probs", layer, probs_of(scores, visible))
    return torch.einsum("bhgts,bhsd->bhgtd", probs, v.float()).to(v.dtype)


def scores_of(q, k):
    """q k / sqrt(d) in float32: q [b h g t d], k [b h s d] -> [b h g t s]."""
    return torch.einsum("bhgtd,bhsd->bhgts", q.float() * q.shape[-1] ** -0.5, k.float())


def probs_of(scores, visible):
    """Softmax over the visible keys: scores [b h g t s] float32, visible [b h t s]. An all-hidden row is all zeros."""
    hidden = ~visible[:, :, None]
    probs = scores.masked_fill(hidden, -torch.inf).softmax(dim=-1)
    blind = hidden.all(dim=-1, keepdim=True)
    return probs.masked_fill_(blind, 0) if blind.any() else probs


def attend_in_blocks(q, k, v, visible, blocks: list | None = None):
    """The same, some queries at a time, on the range of keys that any of them may see."""
    z = torch.empty_like(q)
    read = reader(q)
    for rows, keys, mask, blind in blocks or blocks_of(visible):
        z[:, :, :, rows] = read(q[:, :, :, rows], k[:, :, keys], v[:, :, keys], mask)
        if blind is not None:
            z[:, :, :, rows].masked_fill_(blind, 0)
    return z


def blocks_of(visible) -> list:
    """(rows, keys, mask [b h t s] or None, blind rows or None) of each block of queries of visible [b h t s].

    `keys` is the range of slots that any row of the block may see; the mask is None where all rows see all of it.
    """
    blocks = []
    for start in range(0, visible.shape[2], BLOCK):
        rows = slice(start, start + BLOCK)
        mask = visible[:, :, rows]
        seen = mask.any(dim=-2).flatten(0, -2).any(dim=0).nonzero()
        keys = slice(int(seen[0]), int(seen[-1]) + 1) if len(seen) else slice(0, 1)
        mask = mask[..., keys]
        blind = ~mask.any(dim=-1)[:, :, None, :, None]  # [b h 1 t 1]
        blocks.append((rows, keys, None if mask.all() else mask, blind if blind.any() else None))
    return blocks


def reader(q):
    """The fastest way to read on that device in that dtype; all take (q [b h g t d], k, v [b h s d], mask or None)."""
    if q.device.type != "cpu":
        return read_folded
    if q.dtype == torch.float32:
        return read_grouped
    return read_by_products if q.shape[3] > 1 else read_folded


def read_grouped(q, k, v, mask):
    """torch's kernel with one kv head for each group of query heads."""
    n_group = q.shape[2]
    mask = mask.repeat_interleave(n_group, dim=1) if mask is not None and mask.shape[1] > 1 else mask
    read = F.scaled_dot_product_attention(q.flatten(1, 2), k, v, mask, enable_gqa=True)
    return rearrange(read, "b (h g) t d -> b h g t d", g=n_group)


def read_folded(q, k, v, mask):
    """torch's kernel with a group's query heads as more rows of their kv head, so that no keys are repeated."""
    n_group = q.shape[2]
    mask = mask if mask is None else mask[:, :, None].expand(-1, -1, n_group, -1, -1).flatten(2, 3)
    read = F.scaled_dot_product_attention(q.flatten(2, 3), k, v, mask)
    return rearrange(read, "b h (g t) d -> b h g t d", g=n_group)


def read_by_products(q, k, v, mask):
    """Plain products, head by head: on a CPU in half precision several times as fast as torch's kernel.

    The softmax reads and writes half precision and computes in float32.
    """
    z = torch.empty_like(q)
    q = (q.float() * q.shape[-1] ** -0.5).to(q.dtype)
    n_open = 0 if mask is None else int(mask.all(dim=-2).flatten(0, -2).all(dim=0).long().cumprod(dim=0).sum())
    for h in range(q.shape[1]):
        scores = q[:, h].flatten(1, 2) @ k[:, h].mT  # [b (g t) s]
        if mask is not None:  # all rows see the first n_open keys
            hidden = ~mask[:, None, min(h, mask.shape[1] - 1), :, n_open:]
            scores.unflatten(1, q.shape[2:4])[..., n_open:].masked_fill_(hidden, -torch.inf)
        z[:, h] = (scores.softmax(dim=-1) @ v[:, h]).unflatten(1, q.shape[2:4])
    return z
