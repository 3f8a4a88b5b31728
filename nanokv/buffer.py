"""The one KV buffer. A slot's index means nothing, its position means everything.

Per layer a few columns with equally many rows: `k`, `v`, `pos`, and whatever notes a method asked for. `k` holds keys
rotated at their original position, once per kv head. Rows stay in position order. Evict positions 1 and 2 of 0..4,
append 5, and the columns read (one letter a row)

    k    [a d e f]        pos  [0 3 4 5]        n_seen 6        n_kept 4

A block is allocated once for the rows it will hold and written in place. `compact` gathers the survivors of every
column with one index into blocks of the new size, so evicted rows really leave memory. While the heads of a layer
keep equally many rows they share one part, with blocks [b h s ...]; when they do not, each head becomes a part of its
own, exactly as long as what it keeps. `parts` walks them; `view` puts them side by side for a score, shorter heads
ending in empty slots of position -1.
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
    """`layers[i]` lists the parts of layer i: one for all its heads, or one a head; a part maps a name to its Column.

    `shared`: every layer and head holds the same tokens.
    """

    layers: list
    ids: Column  # [1 1 S] int64: every token seen, by position, evicted ones too
    n_seen: int = 0
    peak_rows: int = 0
    shared: bool = True


def new_buffer(cfg: Config, rows: int, dtype=torch.float32, device="cpu") -> KVBuffer:
    """An empty buffer with room for `rows` rows a layer and kv head."""
    head = (1, cfg.n_kv_head, rows, cfg.d_head)

    def part() -> dict:
        return {
            "k": Column(torch.empty(head, dtype=dtype, device=device)),
            "v": Column(torch.empty(head, dtype=dtype, device=device)),
            "pos": Column(torch.empty((1, 1, rows), dtype=torch.int64, device=device)),
        }

    ids = Column(torch.empty((1, 1, rows), dtype=torch.int64, device=device))
    return KVBuffer([[part()] for _ in range(cfg.n_layer)], ids)


def rows(column: Column) -> torch.Tensor:
    """The rows in use, a view: [b h s ...]."""
    return column.block[:, :, : column.n]


def parts_by_heads(kv: KVBuffer, layer: int) -> list:
    """(heads, part) of one layer; `heads` slices the h axis: one part for all heads, or one a head."""
    parts = kv.layers[layer]
    if len(parts) == 1:
        return [(slice(None), parts[0])]
    return [(slice(h, h + 1), part) for h, part in enumerate(parts)]


def parts(kv: KVBuffer, layer: int) -> list:
    """(heads, k [b h s d], v [b h s d], pos [b h s]) of each part of one layer, as views; `heads` slices the h axis.

    pos has h = 1 while all heads of the part hold the same tokens.
    """
    return [(heads, *(rows(part[name]) for name in ("k", "v", "pos"))) for heads, part in parts_by_heads(kv, layer)]


def view(kv: KVBuffer, layer: int):
    """k [b h s d], v [b h s d], pos [b h s] of a whole layer: views while it is one part, else copies side by side."""
    return notes(kv, layer, "k"), notes(kv, layer, "v"), notes(kv, layer, "pos")


def notes(kv: KVBuffer, layer: int, name: str):
    """One column of a layer, [b h s ...], put side by side as in `view`; None where nobody has written one."""
    columns = [part.get(name) for part in kv.layers[layer]]
    if None in columns:
        return None
    if len(columns) == 1:
        return rows(columns[0])
    longest = max(column.n for column in columns)
    empty = -1 if name == "pos" else 0
    return torch.cat([padded(rows(column), longest, empty) for column in columns], dim=1)


def padded(x, n: int, empty: int):
    """x [b 1 s ...] with slots of `empty` behind, n in all."""
    out = x.new_full((*x.shape[:2], n, *x.shape[3:]), empty)
    out[:, :, : x.shape[2]] = x
    return out


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
    for heads, part in parts_by_heads(kv, layer):
        write(part["k"], k[:, heads])
        write(part["v"], v[:, heads])
        write(part["pos"], repeat(pos, "b t -> b h t", h=part["pos"].block.shape[1]))
        kv.peak_rows = max(kv.peak_rows, part["k"].n)


def see(kv: KVBuffer, ids):
    """Count the tokens `ids` [b t] as seen, once every layer has their rows."""
    write(kv.ids, ids[:, None])
    kv.n_seen += ids.shape[1]


def note(kv: KVBuffer, layer: int, name: str, new):
    """Append `new` [b h t ...] to a column of one's own; it is kept, moved and dropped with the rows beside it."""
    differ = len(kv.layers[layer]) > 1
    assert not differ or new.shape[1] > 1, f"column {name!r} is one for all heads, and layer {layer}'s heads differ"
    for heads, part in parts_by_heads(kv, layer):
        mine = new[:, heads]
        if name not in part:
            part[name] = Column(mine.new_empty((*mine.shape[:2], part["k"].block.shape[2], *mine.shape[3:])))
        write(part[name], mine)


def add_to_notes(kv: KVBuffer, layer: int, name: str, x):
    """Add x [b h s ...], laid out as `notes` gives it, to a column in place."""
    for heads, part in parts_by_heads(kv, layer):
        rows(part[name]).add_(x[:, heads, : part[name].n])


def held_ids(kv: KVBuffer, layer: int):
    """The token of every slot: int64 [b h s]; an empty slot gives token 0's, which its position -1 disowns."""
    pos = notes(kv, layer, "pos")
    return kv.ids.block[0, 0][pos.clamp(min=0)]


def mark(kv: KVBuffer) -> list:
    """How many rows each part holds now, for `rewind`."""
    return [[part["k"].n for part in layer] for layer in kv.layers]


def rewind(kv: KVBuffer, marked: list):
    """Forget the rows appended since `mark`: what a lookahead tried."""
    for layer, counts in zip(kv.layers, marked):
        for part, n in zip(layer, counts):
            for column in part.values():
                column.n = min(column.n, n)


def n_kept(kv: KVBuffer) -> int:
    """Rows held by the fullest head of the fullest layer: what a budget is compared with."""
    return max(part["k"].n for layer in kv.layers for part in layer)


def rows_held(kv: KVBuffer) -> list:
    """Rows held: [layer][kv head]."""
    return [[part["k"].n for part in layer for _ in range(part["k"].block.shape[1])] for layer in kv.layers]


def bytes_held(kv: KVBuffer) -> int:
    """Bytes of the key and value rows in use: 2 x rows of all layers and kv heads x d x size."""
    return sum(rows(part[name]).nbytes for layer in kv.layers for part in layer for name in ("k", "v"))


def bytes_of_notes(kv: KVBuffer) -> int:
    """Bytes of the rows that methods keep beside keys and values (the fast form's activations, H2O's sums)."""
    own = ("k", "v", "pos")
    return sum(rows(c).nbytes for layer in kv.layers for part in layer for name, c in part.items() if name not in own)
