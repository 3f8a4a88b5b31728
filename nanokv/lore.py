"""LORE-KV (arXiv 2610.07643): keep what a few sampled continuations would miss most.

Algorithm 1: look ahead (Eq. 1), weigh the trajectories (Eqs. 2-4, 10), score each chunk by how far its deletion would
move the attention output under the window's and the trajectories' queries (Eqs. 5-7), keep the best (Eq. 8, evict.py).
What the paper leaves open is an argument; its default is the plainest reading:

    window     newest prompt tokens whose queries make E_W
    M, T       trajectories, tokens each
    chunk      adjacent tokens deleted together; chunk_of: "joint", or "mean" of the tokens' own effects
    lambda_L   weight of the lookahead; 0 runs none
    beta, gamma, lambda_D   reliability R = β c̄ - γ H̄ - λ_D D̂ (Eq. 4)
    psi        "sum": divided by the sum over a head's deletable chunks; "maxpool": the same after a max over 7
               neighbours; "rank"; "identity"
    norm       "l2" or "l1" of W_O Δo; group: a group's query heads by "mean", "max" or "sum" (before the norm)
    omega      "reliability" or "uniform"
    queries    "sampled" at `temperature`, or "greedy" (M = 1: what the full cache will really ask)
    past_eos   go on behind an end-of-text token
    lookahead  a JSON file with `trajectories` to replay

The page names its plug-ins without formulas; these are our readings, off by default:

    alpha      robust aggregation: the share of trajectories trimmed at either end of each chunk's sorted ψ(E_m)
    kappa      adaptive budgets: the share of a layer's rows that goes to heads by score, not evenly (options.py)
    tau, lambda_k, lambda_v   diversity: see `diverse`
"""

from typing import Literal

import torch

from nanokv import UserError
from nanokv.effects import Effects
from nanokv.lookahead import Lookahead, ancestral, lookahead, most_likely, read_trajectories
from nanokv.reliability import reliability
from nanokv.scores import window_probs
from nanokv.window_scores import andpro_of, pooled


def lore(
    weights,
    cfg,
    kv,
    seen,
    *,
    window=32,
    M=4,
    T=8,
    chunk=4,
    lambda_L=1.0,
    beta=1.0,
    gamma=1.3,
    lambda_D=0.0,
    psi: Literal["sum", "maxpool", "identity", "rank"] = "sum",
    norm: Literal["l2", "l1"] = "l2",
    group: Literal["mean", "max", "sum"] = "mean",
    chunk_of: Literal["joint", "mean"] = "joint",
    omega: Literal["reliability", "uniform"] = "reliability",
    queries: Literal["sampled", "greedy"] = "sampled",
    temperature=1.0,
    past_eos=False,
    alpha=0.0,
    kappa=0.0,
    tau=0.0,
    lambda_k=1.0,
    lambda_v=1.0,
    seed=0,
    lookahead=None,
):
    """S_i = ψ(E_W) + λ_L Σ_m ω_m ψ(E_m) for every slot: a [b h s] per layer (Eq. 7). Options: see above."""
    look, w = None, None
    if lambda_L:
        look = look_ahead(weights, cfg, kv, seen, M, T, queries, temperature, past_eos, seed, lookahead)
        w = reliability(look, beta, gamma, lambda_D, omega, seen.report)
    scores = []
    for layer in range(cfg.n_layer):
        effects = Effects(weights, cfg, kv, seen, layer, chunk, norm, group, chunk_of)
        scores.append(score_of(effects, look, w, psi, lambda_L, alpha, seen.budget, tau, lambda_k, lambda_v))
    return scores


def score_of(effects: Effects, look: Lookahead | None, w, psi, lambda_L, alpha, budget, tau, lambda_k, lambda_v):
    """Eq. 7 for the rows of one layer: [b h s]."""
    S = scaled(effects.of_window(), psi)
    if look:
        E = torch.stack([scaled(effects.of_branch(look, m), psi) for m in range(len(look.ids))])  # [m h C]
        S = S + lambda_L * mixture(E, w, alpha)
    if tau:
        S = diverse(S, *effects.chunk_means(), -(-budget // effects.chunk), tau, lambda_k, lambda_v)
    return effects.to_slots(S)


def andpro_lookahead(weights, cfg, kv, seen, *, window=32, M=4, T=8, chunk=4, kernel=7, seed=0, lookahead=None):
    """The control "AnDPro on the same continuations": its score under the window's and all trajectories' queries."""
    look = look_ahead(weights, cfg, kv, seen, M, T, "sampled", 1.0, False, seed, lookahead)
    reliability(look, 0, 0, 0, "uniform", seen.report)
    scores = []
    for layer in range(cfg.n_layer):
        effects = Effects(weights, cfg, kv, seen, layer, chunk)
        probs = [window_probs(cfg, kv, seen, layer)[0]]
        probs += [effects.probs_of_branch(look, m)[0][..., : effects.k.shape[1]] for m in range(len(look.ids))]
        scores.append(andpro_of(cfg, kv, seen, layer, torch.cat(probs, dim=2)[None], chunk, kernel, "droppable"))
    return scores


def look_ahead(weights, cfg, kv, seen, M, T, queries, temperature, past_eos, seed, path) -> Lookahead:
    """Eq. 1, or the trajectories of a file. Its random numbers are its own: nobody else's state moves."""
    given = read_trajectories(path) if path else None
    if queries not in ("sampled", "greedy"):
        raise UserError(f"queries is sampled or greedy, not {queries!r}")
    rng = torch.Generator(seen.logits.device).manual_seed(seed)
    draw = ancestral(rng) if queries == "sampled" else most_likely
    stop_ids = () if past_eos else seen.stop_ids
    n = 1 if queries == "greedy" else M
    return lookahead(
        weights, cfg, kv, seen.logits, n, T, draw, stop_ids, given, temperature=temperature, mask=seen.mask
    )


def scaled(E, psi: str):
    """ψ over the deletable chunks of one layer and head: E [h C] -> [h C]."""
    if psi in ("sum", "maxpool"):
        E = pooled(E, 7, "max") if psi == "maxpool" else E
        return E / E.sum(dim=-1, keepdim=True).clamp(min=1e-30)
    if psi == "rank":
        return E.argsort(dim=-1, stable=True).argsort(dim=-1) / E.shape[-1]
    if psi == "identity":
        return E
    raise UserError(f"psi is sum, maxpool, rank or identity, not {psi!r}")


def mixture(E, w, alpha: float):
    """Σ_m ω_m E_m, with the share `alpha` of the m trimmed at either end of each chunk: E [m h C], w [m] -> [h C]."""
    order = E.argsort(dim=0)
    n_trim = int(alpha * len(w))
    if not 0 <= 2 * n_trim < len(w):
        raise UserError(f"alpha={alpha} of {len(w)} trajectories trimmed at either end leaves none")
    kept = order[n_trim : len(w) - n_trim]
    w_kept = w.to(E.device)[kept]
    return (E.gather(0, kept) * w_kept).sum(dim=0) / w_kept.sum(dim=0)


def diverse(S, k, v, n_pick: int, tau: float, lambda_k: float, lambda_v: float):
    """Greedy choice of `n_pick` chunks a head, each time the largest S_C (1 - τ max(0, λ_k cos_k + λ_v cos_v)).

    The cosines are the chunk's largest to any chunk chosen before, of mean keys and mean values [h C d]. Returns
    numbers [h C] that sort as chosen, the rest behind in the order of S.
    """
    k, v = torch.nn.functional.normalize(k, dim=-1), torch.nn.functional.normalize(v, dim=-1)
    near_k, near_v = torch.zeros_like(S), torch.zeros_like(S)
    out = S / S.amax(dim=-1, keepdim=True).clamp(min=1e-30)  # at most 1
    chosen = torch.zeros_like(S, dtype=torch.bool)
    heads = torch.arange(len(S), device=S.device)
    for i in range(min(n_pick, S.shape[-1])):
        discount = 1 - tau * (lambda_k * near_k + lambda_v * near_v).clamp(min=0)
        gain = (S * discount).masked_fill(chosen, -torch.inf)
        pick = S.shape[-1] - 1 - gain.flip(-1).argmax(dim=-1)  # the newest of ties
        chosen[heads, pick] = True
        out[heads, pick] = 1.0 + n_pick - i
        near_k = torch.maximum(near_k, torch.einsum("hCd,hd->hC", k, k[heads, pick]))
        near_v = torch.maximum(near_v, torch.einsum("hCd,hd->hC", v, v[heads, pick]))
    return out
