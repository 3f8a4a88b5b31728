"""The closed table of tensors one can see or replace, layer by layer.

A hook is an argument, never registered: `hooks` maps a point's name to `f(layer, x)`. Returning None looks,
returning a tensor replaces. Nothing leaks from one call to the next and there is nothing to remove.
A hook on `scores` or `probs` takes the explicit attention, because the fast one never forms them.
"""

import torch

POINTS = {
    "resid_in": "b t e, what the layer reads",
    "q": "b h g t d, after rotation",
    "k": "b h t d, new keys, after rotation",
    "v": "b h t d, new values",
    "scores": "b h g t s float32, q k / sqrt(d) before the mask",
    "probs": "b h g t s float32, after mask and softmax",
    "z": "b h g t d, what each head read",
    "attn_out": "b t e, after W_O",
    "resid_mid": "b t e, between attention and mlp",
    "mlp_out": "b t e",
    "resid_out": "b t e, what the layer writes",
}


def check_points(names):
    """AssertionError with the table's names when a point does not exist."""
    for name in names:
        assert name in POINTS, f"no hook point {name!r}; there are: {', '.join(POINTS)}"


def tap(hooks: dict | None, name: str, layer: int, x):
    """Show x to the hook of that point, and take what it returns instead if it returns something."""
    if not hooks or name not in hooks:
        return x
    seen = hooks[name](layer, x)
    if seen is None:
        return x
    assert seen.shape == x.shape, f"hook {name!r}, layer {layer}: {tuple(seen.shape)} for {tuple(x.shape)}"
    return seen


def looks_inside(hooks: dict | None) -> bool:
    """Whether a hook needs the explicit attention."""
    return bool(hooks) and ("scores" in hooks or "probs" in hooks)


def chain(*many: dict | None) -> dict:
    """One hooks dict out of several; functions on the same point run in the order given."""
    chained = {}
    for hooks in many:
        for name, f in (hooks or {}).items():
            chained[name] = after(chained[name], f) if name in chained else f
    check_points(chained)
    return chained


def after(first, second):
    def f(layer, x):
        y = first(layer, x)
        x = x if y is None else y
        z = second(layer, x)
        return x if z is None else z

    return f


class Record:
    """Keeps the last `last` rows (None: all) of the named points: `record.seen[name][layer]`, oldest row first.

    `hooks=Record("q", last=32).hooks` is the observation window of SnapKV and its family. Rows are counted on the
    `t` axis, the one before the last.
    """

    def __init__(self, *names, last=None, layers=None):
        self.last, self.layers, self.seen = last, layers, {name: {} for name in names}
        check_points(names)
        self.hooks = {name: self.hook(name) for name in names}

    def hook(self, name):
        def f(layer, x):
            if self.layers is not None and layer not in self.layers:
                return
            before = self.seen[name].get(layer)
            fits = before is not None and (self.last is None or x.shape[-2] < self.last)
            rows = torch.cat((before, x), dim=-2) if fits else x
            self.seen[name][layer] = rows if self.last is None else rows[..., -self.last :, :].clone()

        return f
