"""The one KV buffer. A slot's index means nothing, its position means everything.

Per layer a few columns with equally many rows: `k`, `v`, `pos`, and whatever notes a method asked for. `k` holds keys
rotated at their original position, once per kv head; `pos` is -1 in an empty slot. Rows stay in position order.
Evict positions 1 and 2 of 0..4, append 5, and the columns read (one letter a row)

    k    [a d e f]        pos  [0 3 4 5]        n_seen 6        n_kept 4

A block is allocated once for the rows it will hold and written in place. `compact` gathers the survivors of every
column with one index into a block of the new size, so evicted rows really leave memory. When heads keep different
numbers of rows the block is as long as its longest head and shorter heads end in empty slots.
"""

from dataclasses import dataclass

import torch
from einops import repeat

from nanokv.config import Config


@dataclass
class Column:
    """`block` [b h S ...] has room for S rows; the first `n` are in use."""

    block: torch.Tensor
    n: int = 0


@dataclass
class KVBuffer:
    """`layers[i]` maps a column's name to its Column. `shared`: every layer and head holds the same tokens."""

    layers: list
    ids: Column  # [1 1 S] int64: every token seen, by position, evicted ones too
    n_seen: int = 0
    peak_rows: int = 0
    shared: bool = True


def new_buffer(cfg: Config, rows: int, dtype=torch.float32, device="cpu") -> KVBuffer:
    """An empty buffer with room for `rows` rows a layer and kv head."""
    head = (1, cfg.n_kv_head, rows, cfg.d_head)

    def layer() -> dict:
        return {
            "k": Column(torch.empty(head, dtype=dtype, device=device)),
            "v": Column(torch.empty(head, dtype=dtype, device=device)),
            "pos": Column(torch.empty((1, 1, rows), dtype=torch.int64, device=device)),
        }

    ids = Column(torch.empty((1, 1, rows), dtype=torch.int64, device=device))
    return KVBuffer([layer() for _ in range(cfg.n_layer)], ids)


def rows(column: Column) -> torch.Tensor:
    """The rows in use, a view: [b h s ...]."""
    return column.block[:, :, : column.n]


def view(kv: KVBuffer, layer: int):
    """k [b h s d], v [b h s d], pos [b h s] of one layer, as views; pos has h = 1 while all heads hold the same."""
    columns = kv.layers[layer]
    return rows(columns["k"]), rows(columns["v"]), rows(columns["pos"])


def write(column: Column, new: torch.Tensor):
    """Put `new` [b h t ...] behind the rows in use. A full block moves to one half again as large."""
    n, t = column.n, new.shape[2]
    if n + t > column.block.shape[2]:
        grown = max(n + t, column.block.shape[2] * 3 // 2)
        block = column.block.new_empty((*column.block.shape[:2], grown, *column.block.shape[3:]))
        block[:, :, :n] = rows(column)
        column.block = block
    column.block[:, :, n : n + t] = new
    column.n = n + t


def append(kv: KVBuffer, layer: int, k, v, pos):
    """Append t rows to one layer. k, v [b h t d]; pos [b t], the tokens' original positions."""
    columns = kv.layers[layer]
    write(columns["k"], k)
    write(columns["v"], v)
    n_heads = columns["pos"].block.shape[1]
    write(columns["pos"], repeat(pos, "b t -> b h t", h=n_heads))
    kv.peak_rows = max(kv.peak_rows, columns["k"].n)


def see(kv: KVBuffer, ids):
    """Count the tokens `ids` [b t] as seen, once every layer has their rows."""
    write(kv.ids, ids[:, None])
    kv.n_seen += ids.shape[1]


def note(kv: KVBuffer, layer: int, name: str, new):
    """Append `new` [b h t ...] to a column of one's own; it is kept, moved and dropped with the rows beside it."""
    columns = kv.layers[layer]
    if name not in columns:
        columns[name] = Column(new.new_empty((*new.shape[:2], columns["k"].block.shape[2], *new.shape[3:])))
    write(columns[name], new)


def notes(kv: KVBuffer, layer: int, name: str):
    """That column's rows, a view [b h s ...]; None where nobody has written one."""
    column = kv.layers[layer].get(name)
    return None if column is None else rows(column)


def held_ids(kv: KVBuffer, layer: int):
    """The token of every slot: int64 [b h s]; an empty slot gives token 0's, which its position -1 disowns."""
    pos = rows(kv.layers[layer]["pos"])
    return kv.ids.block[0, 0][pos.clamp(min=0)]


def compact(kv: KVBuffer, layer: int, keep, room: int = 0):
    """Drop every row of one layer that `keep` [b h s] bool (h = 1: the same for all heads) does not name.

    `room` rows are left free behind the longest head, for what will be appended.
    """
    columns = kv.layers[layer]
    n_held = columns["k"].n
    for name, column in columns.items():
        assert column.n == n_held, f"column {name!r} of layer {layer} has {column.n} rows, its keys {n_held}"
    assert keep.shape[2] == n_held, f"keep names {keep.shape[2]} rows, layer {layer} holds {n_held}"
    n_longest = int(keep.sum(dim=-1).max())
    survivors = torch.argsort(~keep, dim=-1, stable=True)[:, :, :n_longest]  # kept first, in position order
    hole = ~keep.gather(-1, survivors)
    for name, column in columns.items():
        old = rows(column)
        if keep.shape[1] > 1 and old.shape[1] == 1:
            assert name == "pos", f"column {name!r} is one for all heads: they must keep the same rows"
            old = old.expand(-1, keep.shape[1], -1)
        column.block = packed(old, survivors, hole, room, empty=-1 if name == "pos" else 0)
        column.n = n_longest


def packed(old, survivors, hole, room: int, empty: int):
    """A new block [b h (rows kept + room) ...] with the `survivors` [b h r] of `old` [b h s ...] in front."""
    n_head, n_kept = old.shape[1], survivors.shape[2]
    block = old.new_empty((1, n_head, n_kept + room, *old.shape[3:]))
    for head in range(n_head):
        i = min(head, survivors.shape[1] - 1)  # one list for all heads, or one a head
        block[0, head, :n_kept] = old[0, head, survivors[0, i]]
        block[0, head, :n_kept][hole[0, i]] = empty
    return block


def drop_last(kv: KVBuffer, n_rows: int):
    """Forget every row behind the first `n_rows` of each layer: what a lookahead appended."""
    for columns in kv.layers:
        for column in columns.values():
            column.n = min(column.n, n_rows)


def n_kept(kv: KVBuffer) -> int:
    """Rows held by the fullest head of the fullest layer: what a budget is compared with."""
    return max(columns["k"].n for columns in kv.layers)


def rows_held(kv: KVBuffer) -> list:
    """Rows really held, empty slots not counted: [layer][kv head]."""
    n_head = kv.layers[0]["k"].block.shape[1]
    held = [(rows(columns["pos"]) >= 0).sum(dim=-1)[0].tolist() for columns in kv.layers]
    return [counts * (n_head // len(counts)) for counts in held]


def bytes_held(kv: KVBuffer) -> int:
    """Bytes of the key and value rows in use: 2 x layers x kv heads x rows x d x size, longest head counted."""
    return sum(rows(columns[name]).nbytes for columns in kv.layers for name in ("k", "v"))


def bytes_of_notes(kv: KVBuffer) -> int:
    """Bytes of the rows that methods keep beside keys and values (the fast form's activations, H2O's sums)."""
    own = ("k", "v", "pos")
    return sum(rows(c).nbytes for columns in kv.layers for name, c in columns.items() if name not in own)
