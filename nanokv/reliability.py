"""How far to trust each trajectory: ω = softmax(β c̄ - γ H̄ - λ_D D̂) (LORE-KV, arXiv 2610.07643, Eqs. 2-4, 10)."""

import torch

from nanokv import UserError
from nanokv.lookahead import Lookahead


def reliability(look: Lookahead, beta, gamma, lambda_D, omega, report: dict):
    """ω = softmax(β c̄ - γ H̄ - λ_D D̂) over the trajectories (Eqs. 2-4, 10): float32 [m].

    c_u = log q(y_u) + H(q) is centred: its mean over y ~ q is zero. All of it goes into `report`, for the trace.
    """
    if omega not in ("reliability", "uniform"):
        raise UserError(f"omega is reliability or uniform, not {omega!r}")
    c_bar = torch.tensor([sum(lq + h for lq, h in zip(*two)) / len(two[0]) for two in zip(look.logp, look.entropy)])
    H_bar = torch.tensor([sum(h) / len(h) for h in look.entropy])
    D = disagreement(look)
    D_hat = standardised(D)
    R = beta * c_bar - gamma * H_bar - lambda_D * D_hat
    w = R.softmax(dim=0) if omega == "reliability" else torch.full_like(R, 1 / len(R))
    numbers = {"c_bar": c_bar, "H_bar": H_bar, "D": D, "D_hat": D_hat, "weights": w}
    drawn = {"trajectories": look.ids, "logp": look.logp, "entropy": look.entropy}
    report["lookahead"] = {**drawn, **{name: x.tolist() for name, x in numbers.items()}}
    return w


def disagreement(look: Lookahead):
    """D_m = 1 - mean cosine of trajectory m's queries with the others', step by step, over layers and heads: [m].

    Steps share a position, so rotation cancels in the cosine.
    """
    n = len(look.ids)
    D = torch.zeros(n)
    for m in range(n):
        cosines = [mean_cosine(look, m, other) for other in range(n) if other != m]
        D[m] = 1 - sum(cosines) / len(cosines) if cosines else 0.0
    return D


def mean_cosine(look: Lookahead, one: int, other: int) -> float:
    steps = min(len(look.ids[one]), len(look.ids[other]))
    pairs = [(q[one][:, :, :steps].float(), q[other][:, :, :steps].float()) for q in look.q]
    return float(torch.stack([torch.cosine_similarity(a, b, dim=-1).mean() for a, b in pairs]).mean())


def standardised(D):
    """z-score with the population's standard deviation; all zero where the trajectories do not differ."""
    std = D.std(correction=0)
    return (D - D.mean()) / std if len(D) > 1 and std > 1e-6 else torch.zeros_like(D)
