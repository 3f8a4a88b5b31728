"""Let rows leave: gather what stays, of every column, into blocks of the new size."""

from nanokv.buffer import Column, KVBuffer, rows


def compact(kv: KVBuffer, layer: int, keep, room: int = 0):
    """Drop every row of one layer that `keep` [b h s] bool (h = 1: the same for all heads) does not name.

    `room` rows are left free behind what stays, for what will be appended.
    """
    old = kv.layers[layer]
    n_head = sum(part["k"].block.shape[1] for part in old)
    check_columns(old, layer, keep)
    kept = [keep[0, min(h, keep.shape[1] - 1)].nonzero()[:, 0] for h in range(n_head)]  # slots, in position order
    even = len({len(slots) for slots in kept}) == 1
    heads_of_parts = [range(n_head)] if even else [range(h, h + 1) for h in range(n_head)]
    kv.layers[layer] = [packed(old, heads, kept, room, keep.shape[1] == 1) for heads in heads_of_parts]


def check_columns(part_list: list, layer: int, keep):
    """AssertionError with the numbers when a column or `keep` does not have a row for every key."""
    n_slots = max(part["k"].n for part in part_list)
    assert keep.shape[2] == n_slots, f"keep names {keep.shape[2]} rows, layer {layer} holds {n_slots}"
    for part in part_list:
        for name, column in part.items():
            n = part["k"].n
            assert column.n == n, f"column {name!r} of layer {layer} has {column.n} rows, its keys {n}"


def packed(old: list, heads, kept: list, room: int, same_rows: bool) -> dict:
    """A new part for `heads`: of every column of the `old` parts the rows kept[head], in blocks with `room` behind."""
    new = {}
    n_kept = len(kept[heads[0]])
    for name, column in old[0].items():
        one_for_all = len(old) == 1 and column.block.shape[1] == 1
        assert same_rows or name == "pos" or not one_for_all or len(kept) == 1, (
            f"column {name!r} is one for all heads: they must keep the same rows"
        )
        n_head = 1 if one_for_all and same_rows else len(heads)
        block = column.block.new_empty((1, n_head, n_kept + room, *column.block.shape[3:]))
        for i in range(n_head):
            part, row = (old[heads[i]], 0) if len(old) > 1 else (old[0], 0 if one_for_all else heads[i])
            block[0, i, :n_kept] = rows(part[name])[0, row, kept[heads[i]]]
        new[name] = Column(block, n_kept)
    return new
