"""The two baselines of the counter-causal paper's tables as its released code computes them (arXiv 2607.27600).

It calls them H2O and Importance; they are neither H2O nor TOVA, whose own scores are in scores.py.
"""

import torch

from nanokv.buffer import note, notes, view


def n_leading(kv, seen) -> int:
    """How many slots the leading protected rows take; the released code's cache is what stands behind them."""
    return int((view(kv, 0)[2][0, 0] < seen.protection.leading).sum())


def h2o_released(weights, cfg, kv, seen):
    """What the counter-causal paper's tables call H2O, as its released code computes it; not H2O. [b 1 s]

    The newest J_b/2 cached *keys* stand in for queries, without a causal mask; the sums are added up over refreshes,
    and averaged over heads and layers.
    """
    lead = n_leading(kv, seen)
    n_rows = view(kv, 0)[2].shape[-1] - lead
    r = min((seen.budget - seen.protection.leading) // 2, n_rows)
    received = torch.zeros(n_rows)
    for layer in range(cfg.n_layer):
        k = view(kv, layer)[0][0, :, lead:].float()  # [h s d]
        a = (k[:, n_rows - r :] @ k.mT * cfg.d_head**-0.5).softmax(dim=-1)  # [h r s]
        received = received.to(a.device) + a.sum(dim=1).mean(dim=0) / cfg.n_layer
    so_far = notes(kv, 0, "F")
    n_new = lead + n_rows - (0 if so_far is None else so_far.shape[-1])
    note(kv, 0, "F", received.new_zeros(1, 1, n_new))
    notes(kv, 0, "F")[:, :, lead:] += received
    return notes(kv, 0, "F").clone()


def importance_released(weights, cfg, kv, seen):
    """What the counter-causal paper's tables call Importance, as its released code computes it; not TOVA. [b 1 s]

    The last layer's newest cached key against every key, keys divided by their largest absolute value, no softmax.
    """
    lead = n_leading(kv, seen)
    k = view(kv, cfg.n_layer - 1)[0][0].float()  # [h s d]
    k = k / k[:, lead:].abs().max()
    score = torch.einsum("hd,hsd->hs", k[:, -1], k)
    return score.mean(dim=0)[None, None]
