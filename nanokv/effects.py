"""Deletion effects of one layer's rows under any queries: LORE-KV's E_W and E_m (arXiv 2610.07643, Eqs. 5-7)."""

import torch

from nanokv import UserError
from nanokv.attention import probs_of, scores_of
from nanokv.buffer import view
from nanokv.deletion import (
    back_to_slots,
    chunk_gram,
    deletion_by_query,
    deletion_effect,
    gram,
    in_chunks,
    output_slices,
)
from nanokv.evict import protected
from nanokv.lookahead import Lookahead
from nanokv.scores import past_of, window_probs


def check(chunk, norm, group, chunk_of):
    if chunk < 1 or chunk_of not in ("joint", "mean"):
        raise UserError(f"chunk is at least 1, chunk_of is joint or mean; not {chunk}, {chunk_of!r}")
    if norm not in ("l2", "l1") or group not in ("mean", "max", "sum"):
        raise UserError(f"norm is l2 or l1, group is mean, max or sum; not {norm!r}, {group!r}")


class Effects:
    """Deletion effects of one layer's deletable chunks, E [h C], under different queries.

    `slots` [h p] are the deletable slots of each head in position order; chunks are cut from the left. A chunk is
    deleted as one ("joint"), or gets the "mean" of its rows' own effects.
    """

    def __init__(self, weights, cfg, kv, seen, layer, chunk, norm="l2", group="mean", chunk_of="joint"):
        check(chunk, norm, group, chunk_of)
        self.cfg, self.kv, self.seen, self.layer = cfg, kv, seen, layer
        self.chunk, self.norm, self.group, self.chunk_of = chunk, norm, group, chunk_of
        k, v, pos = view(kv, layer)
        self.k, self.v = k[0].float(), v[0].float()  # [h s d]
        self.pos = pos.expand(-1, cfg.n_kv_head, -1)
        must = protected(seen.protection, self.pos, kv.n_seen, seen.budget) | (self.pos < 0)
        self.free = ~must[0]  # [h s]
        n_free = int(self.free.sum(dim=-1).max())
        self.slots = (~self.free).long().argsort(dim=-1, stable=True)[:, :n_free]
        self.real = self.free.gather(-1, self.slots)  # a shorter head's list ends in slots it may not delete
        self.free_v = self.v.gather(1, self.slots[..., None].expand(-1, -1, self.v.shape[-1]))  # [h p d]
        self.w_o = output_slices(cfg, weights.layers[layer])
        self.G, self.inside = None, None  # made by the first effect, the same for all queries

    def effect(self, probs, o):
        """probs [h g t s] over all slots, o [h g t d] -> E [h C]: mean over queries, then over the group."""
        a = probs.gather(-1, self.slots[:, None, None].expand(-1, *probs.shape[1:3], -1))
        a = a * self.real[:, None, None]
        size = self.chunk if self.chunk_of == "joint" else 1
        if self.norm == "l2" and self.group != "sum":
            if self.G is None:
                self.G = gram(self.w_o)
                self.inside = chunk_gram(self.free_v, self.G, size)
            e = deletion_effect(a, self.free_v, o, self.G, size, self.inside)
        else:
            e = deletion_by_query(a, self.free_v, o, self.w_o, size, self.norm, self.group == "sum")
        e = e.mean(dim=2)  # [h g C]
        E = e.amax(dim=1) if self.group == "max" else e.mean(dim=1)
        return E if self.chunk_of == "joint" else in_chunks(E, self.chunk).sum(dim=-1) / self.rows_of_chunks()

    def rows_of_chunks(self):
        """Deletable rows of each chunk, at least 1 to divide by: [h C]."""
        return in_chunks(self.real.float(), self.chunk).sum(dim=-1).clamp(min=1)

    def of_window(self):
        """E_W: the newest prompt queries, over the keys that each may see."""
        probs = window_probs(self.cfg, self.kv, self.seen, self.layer)[0]
        return self.effect(probs, torch.einsum("hgts,hsd->hgtd", probs, self.v))

    def of_branch(self, look: Lookahead, m: int):
        """E_m: a trajectory's queries, over the prompt's keys and its own earlier ones."""
        probs, o = self.probs_of_branch(look, m)
        return self.effect(probs[..., : self.k.shape[1]], o)

    def probs_of_branch(self, look: Lookahead, m: int):
        """(attention over prompt and own rows [h g t s + T], output [h g t d]) of trajectory m."""
        q, k, v = (getattr(look, name)[self.layer][m] for name in "qkv")
        q_pos = self.kv.n_seen + torch.arange(q.shape[2], device=q.device)[None]
        k_pos = torch.cat((self.pos, q_pos[:, None].expand(-1, self.pos.shape[1], -1)), dim=-1)
        keys, values = torch.cat((self.k, k.float()), dim=1), torch.cat((self.v, v.float()), dim=1)
        probs = probs_of(scores_of(q[None], keys[None]), past_of(self.cfg, self.layer, self.seen)(q_pos, k_pos))[0]
        return probs, torch.einsum("hgts,hsd->hgtd", probs, values)

    def chunk_means(self):
        """Mean key and mean value of each deletable chunk: two [h C d]."""
        index = self.slots[..., None].expand(-1, -1, self.k.shape[-1])
        real, n = self.real[..., None], self.rows_of_chunks()[..., None]
        return [in_chunks((x.gather(1, index) * real).mT, self.chunk).sum(dim=-1).mT / n for x in (self.k, self.v)]

    def to_slots(self, S):
        """A chunk's score for each of its rows; rows that may not go get 0, protection keeps them: [b h s]."""
        per_row = back_to_slots(S, self.chunk, self.slots.shape[1]) * self.real
        return torch.zeros_like(self.free, dtype=torch.float32).scatter(-1, self.slots, per_row)[None]
