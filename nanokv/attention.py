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
    return scores.masked_fill(hidden, -torch.inf).softmax(dim=-1).masked_fill(hidden, 0)


def attend_in_blocks(q, k, v, visible, blocks: list | None = None):
    """The same, some queries at a time, on the range of keys that any of them may see."""
    z = torch.empty_like(q)
    n_group = q.shape[2]
    half_on_cpu = q.dtype != torch.float32 and q.device.type == "cpu"
    kernel = read_by_products if half_on_cpu else F.scaled_dot_product_attention
    for rows, keys, mask, blind in blocks or blocks_of(visible, n_group):
        # the query heads of one kv head become more rows of it, so that keys and values are never repeated
        queries = rearrange(q[:, :, :, rows], "b h g t d -> b h (g t) d")
        read = kernel(queries, k[:, :, keys], v[:, :, keys], mask)
        if blind is not None:
            read = read.masked_fill(blind, 0)
        z[:, :, :, rows] = rearrange(read, "b h (g t) d -> b h g t d", g=n_group)
    return z


def blocks_of(visible, n_group: int) -> list:
    """(rows, keys, mask [b h (g t) s] or None, blind rows or None) of each block of queries of visible [b h t s].

    `keys` is the range of slots that any row of the block may see; the mask is None where all rows see all of it.
    """
    blocks = []
    for start in range(0, visible.shape[2], BLOCK):
        rows = slice(start, start + BLOCK)
        mask = visible[:, :, rows]
        seen = mask.any(dim=-2).flatten(0, -2).any(dim=0).nonzero()
        keys = slice(int(seen[0]), int(seen[-1]) + 1) if len(seen) else slice(0, 1)
        mask = mask[..., keys]
        if mask.all():
            blocks.append((rows, keys, None, None))
            continue
        mask = mask[:, :, None].expand(-1, -1, n_group, -1, -1).flatten(2, 3)
        blind = ~mask.any(dim=-1, keepdim=True)
        blocks.append((rows, keys, mask, blind if blind.any() else None))
    return blocks


def read_by_products(q, k, v, mask):
    """torch's kernel, in half precision on a CPU twice as fast: products in half, softmax in float32, head by head."""
    read = torch.empty_like(q)
    for h in range(q.shape[1]):
        scores = (q[:, h] @ k[:, h].mT).float().mul_(q.shape[-1] ** -0.5)
        if mask is not None:
            scores.masked_fill_(~mask[:, min(h, mask.shape[1] - 1)], -torch.inf)
        read[:, h] = scores.softmax(dim=-1).to(v.dtype) @ v[:, h]
    return read
