"""softmax(q k / sqrt(d)) v over the keys that a mask lets each query see: by the book, and the fast way beside it."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from einops import rearrange

from nanokv.hooks import looks_inside, tap
from nanokv.products import linear

BLOCK = 128  # query rows at once on a CPU: scores of a block stay in its cache, and few keys are read to be hidden


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
    read = read_by_products if q.device.type == "cpu" and q.shape[3] > 1 else read_folded
    for block in blocks or blocks_of(visible):
        z[:, :, :, block.rows] = read(q[:, :, :, block.rows], k[:, :, block.keys], v[:, :, block.keys], block)
        if block.blind is not None:
            z[:, :, :, block.rows].masked_fill_(block.blind, 0)
    return z


@dataclass
class Block:
    """Some queries and what they see: of the slots `keys` the first `n_open`, of the others what `mask` says."""

    rows: slice
    keys: slice
    n_open: int
    mask: torch.Tensor | None  # [b h t s - n_open] bool, True = may look; None where all of them are open
    blind: torch.Tensor | None  # [b h 1 t 1] bool, queries that see nothing; None where there is none


def blocks_of(visible) -> list:
    """visible [b h t s], cut into Blocks. Made once a pass while all layers hold the same tokens."""
    size = BLOCK if visible.device.type == "cpu" else visible.shape[2]
    blocks = []
    for start in range(0, visible.shape[2], size):
        rows = slice(start, start + size)
        mask = visible[:, :, rows]
        seen = mask.any(dim=-2).flatten(0, -2).any(dim=0).nonzero()
        keys = slice(int(seen[0]), int(seen[-1]) + 1) if len(seen) else slice(0, 1)
        mask = mask[..., keys]
        n_open = int(mask.all(dim=-2).flatten(0, -2).all(dim=0).long().cumprod(dim=0).sum())
        blind = ~mask.any(dim=-1)[:, :, None, :, None]
        mask = mask[..., n_open:]
        blocks.append(Block(rows, keys, n_open, mask if mask.shape[-1] else None, blind if blind.any() else None))
    return blocks


def read_folded(q, k, v, block: Block):
    """torch's kernel with a group's query heads as more rows of their kv head, so that no keys are repeated.

    For a GPU, and for a single token.
    """
    n_group = q.shape[2]
    mask = block.mask
    if mask is not None:
        mask = F.pad(mask, (block.n_open, 0), value=True)
        mask = mask[:, :, None].expand(-1, -1, n_group, -1, -1).flatten(2, 3)
    read = F.scaled_dot_product_attention(q.flatten(2, 3), k, v, mask)
    return rearrange(read, "b h (g t) d -> b h g t d", g=n_group)


def read_by_products(q, k, v, block: Block):
    """Plain products, head by head: on a CPU 1.6 times as fast as torch's kernel, in half precision more than twice.

    The softmax reads and writes q's dtype and computes in float32.
    """
    z = torch.empty_like(q)
    q = (q.float() * q.shape[-1] ** -0.5).to(q.dtype)
    hidden = None if block.mask is None else ~block.mask
    for h in range(q.shape[1]):
        scores = linear(q[0, h].flatten(0, 1), k[0, h])  # [(g t) s]
        if hidden is not None:
            closed = scores.unflatten(0, q.shape[2:4])[..., block.n_open :]  # [g t s - n_open]
            closed.masked_fill_(hidden[0, min(h, hidden.shape[1] - 1)], -torch.inf)
        probs = torch.softmax(scores, dim=-1, out=scores)
        z[0, h] = linear(probs, v[0, h].mT).unflatten(0, q.shape[2:4])
    return z
