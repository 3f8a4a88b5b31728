"""The two passes over one buffer, printed one under the other.

They differ in what a reader should see at once: the causal pass appends keys and values and looks back; the
counter-causal pass appends nothing and looks ahead (arXiv 2607.27600, Sec. 3.2).
"""

import torch

from nanokv.attention import attend, blocks_of
from nanokv.buffer import KVBuffer, append, parts, see, view
from nanokv.config import Config
from nanokv.hooks import looks_inside, tap
from nanokv.masks import both, causal, counter_causal, sliding_window, within
from nanokv.model import Weights, keys, mlp, norm, project, queries, turns, unembed, values

__all__ = ["causal_pass", "counter_causal_pass", "unembed"]


def causal_pass(weights: Weights, cfg: Config, kv: KVBuffer, ids, mask=causal, hooks=None, pos=None):
    """Read the tokens `ids` [b t] at the next positions. Returns x [b t e] after the final norm; see `unembed`.

    `mask(q_pos [b t], k_pos [b h s]) -> [b h t s]` says who may look at whom; the model's own sliding window is
    added to it, in original positions. With `pos` [t] given the tokens are tried there, appended but not counted as
    seen (a lookahead's branches).
    """
    assert len(ids) == 1, f"{len(ids)} prompts at once: one prompt a run, there is no padding"
    tried = pos is not None
    pos = pos if tried else kv.n_seen + torch.arange(ids.shape[1], device=ids.device)
    turn_q, turn_k = turns(weights, cfg, pos)
    visible = {}  # by window; the same in every layer while all layers hold the same tokens
    x = weights.embed[ids]
    for layer, w in enumerate(weights.layers):
        x = tap(hooks, "resid_in", layer, x)
        a = norm(x, w.norm_attn, cfg.norm_eps)
        q = tap(hooks, "q", layer, queries(cfg, w, a, turn_q))
        k = tap(hooks, "k", layer, keys(cfg, w, a, turn_k))
        v = tap(hooks, "v", layer, values(cfg, w, a))
        append(kv, layer, k, v, pos[None])
        window = cfg.windows[layer]
        own = both(mask, sliding_window(window)) if window else mask
        z = tap(hooks, "z", layer, read(kv, layer, q, pos, own, visible.setdefault(window, {}), hooks))
        x = x + tap(hooks, "attn_out", layer, project(w, z))
        x = tap(hooks, "resid_mid", layer, x)
        x = x + tap(hooks, "mlp_out", layer, mlp(w, norm(x, w.norm_mlp, cfg.norm_eps)))
        x = tap(hooks, "resid_out", layer, x)
    if not tried:
        see(kv, ids)
    return norm(x, weights.norm, cfg.norm_eps)


def read(kv: KVBuffer, layer: int, q, pos, mask, visible: dict, hooks):
    """What every head reads from the rows of one layer: q [b h g t d] at positions pos [t] -> z [b h g t d].

    `visible` keeps the mask from layer to layer while all of them hold the same tokens. Heads that keep other numbers
    of rows are read one by one, unless a hook wants to see scores or probs of all of them.
    """
    if len(kv.layers[layer]) == 1 or looks_inside(hooks):
        k, v, k_pos = view(kv, layer)
        if not visible or not kv.shared:
            visible["mask"] = mask(pos[None], k_pos)
            visible["blocks"] = blocks_of(visible["mask"])
        return attend(q, k, v, visible["mask"], layer, hooks, visible["blocks"])
    z = torch.empty_like(q)
    for heads, k, v, k_pos in parts(kv, layer):
        z[:, heads] = attend(q[:, heads], k, v, mask(pos[None], k_pos), layer, hooks)
    return z


def counter_causal_pass(weights, cfg, kv, x, pos, mask=counter_causal, layers=None, with_mlp=True, hooks=None):
    """Read the cached keys and values again from the other side. x [b t e] enters the first of `layers`; pos [t].

    Fresh queries at the original positions `pos`, the keys and values as cached, nothing written. Rows do not depend
    on each other, so any part of them may be passed. `layers` None: all of them. Returns x [b t e], final norm applied.
    """
    turn_q, _ = turns(weights, cfg, pos)
    visible = {}
    for layer in range(cfg.n_layer) if layers is None else layers:
        w = weights.layers[layer]
        x = tap(hooks, "resid_in", layer, x)
        a = norm(x, w.norm_attn, cfg.norm_eps)
        q = tap(hooks, "q", layer, queries(cfg, w, a, turn_q))
        window = cfg.windows[layer]
        own = both(mask, within(window)) if window else mask
        z = tap(hooks, "z", layer, read(kv, layer, q, pos, own, visible.setdefault(window, {}), hooks))
        x = x + tap(hooks, "attn_out", layer, project(w, z))
        x = tap(hooks, "resid_mid", layer, x)
        if with_mlp:
            x = x + tap(hooks, "mlp_out", layer, mlp(w, norm(x, w.norm_mlp, cfg.norm_eps)))
        x = tap(hooks, "resid_out", layer, x)
    return norm(x, weights.norm, cfg.norm_eps)
