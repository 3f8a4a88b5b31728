"""Head-level scores that need no observation window: from keys alone, or from a model of the prompt's queries."""

import torch
import torch.nn.functional as F

from nanokv import UserError
from nanokv.buffer import view
from nanokv.rope import angles, rotate


def key_norm(weights, cfg, kv, seen):
    """Small keys stay (arXiv 2406.11430): -‖k‖₂. A [b h s] per layer."""
    return [-view(kv, layer)[0].float().norm(dim=-1) for layer in range(cfg.n_layer)]


def keydiff(weights, cfg, kv, seen):
    """KeyDiff (arXiv 2504.15364): keys unlike the mean direction stay. A [b h s] per layer."""
    scores = []
    for layer in range(cfg.n_layer):
        k, _, pos = view(kv, layer)
        k_hat = F.normalize(k.float(), dim=-1)
        anchor = (k_hat * (pos >= 0)[..., None]).sum(dim=2, keepdim=True)  # its length does not matter
        scores.append(-F.cosine_similarity(k_hat, anchor, dim=-1))
    return scores


def watch_query_moments(weights, cfg, kv, seen, *, n_sink=4):
    """Adds up first and second moments of the unrotated queries, without the first `n_sink` tokens: float64, per layer.

    seen.record["moments"][layer] = (count, sum [h g d], sum of outer products [h g d d]).
    """
    moments = seen.record.setdefault("moments", {})

    def add(layer, q):  # [b h g t d], rotated at kv.n_seen ...
        pos = kv.n_seen + torch.arange(q.shape[3], device=q.device)
        cos, sin = angles(weights.inv_freq, pos)
        plain = rotate(q, cos, -sin)[0, :, :, pos >= n_sink].double() / cfg.rope.attention_factor
        count, first, second = moments.get(layer, (0, 0.0, 0.0))
        moments[layer] = (
            count + plain.shape[2],
            first + plain.sum(dim=2),
            second + torch.einsum("hgtd,hgtc->hgdc", plain, plain),
        )

    return {"q": add}


def expected_attention(weights, cfg, kv, seen, *, n_future=512, n_sink=4, epsilon=0.0, use_vnorm=True, covariance=True):
    """Expected Attention (arXiv 2510.00636): what Gaussian queries at the next `n_future` positions would attend to.

    softmax_j(μ̄·k/√d + kᵀΣ̄k/2d), mean over the group, times ‖v‖ (as (score + epsilon)·‖v‖): a [b h s] per layer.
    The first `n_sink` tokens stay out of the softmax, or each query head would weigh by what its sinks leave.
    """
    scores = []
    for layer in range(cfg.n_layer):
        mu, sigma = future_queries(weights, cfg, kv, seen, layer, n_future)
        k, v, pos = (x.double() if i < 2 else x for i, x in enumerate(view(kv, layer)))
        logits = torch.einsum("hgd,bhsd->bhgs", mu, k) * cfg.d_head**-0.5
        if covariance:
            logits = logits + torch.einsum("bhsd,hgdc,bhsc->bhgs", k, sigma, k) / (2 * cfg.d_head)
        attention = logits.masked_fill((pos < n_sink)[:, :, None], -torch.inf).softmax(dim=-1).mean(dim=2)
        scores.append(((attention + epsilon) * v.norm(dim=-1) if use_vnorm else attention).float())
    return scores


def future_queries(weights, cfg, kv, seen, layer: int, n_future: int):
    """Mean [h g d] and covariance [h g d d] of the prompt's queries, under the mean rotation of what comes next."""
    count, first, second = seen.record["moments"][layer]
    if not count:
        raise UserError(
            "expected_attention has seen no query behind the first n_sink tokens yet: refresh later (--every)"
        )
    mu = first / count
    sigma = second / count - torch.einsum("hgd,hgc->hgdc", mu, mu)
    pos = kv.n_seen + torch.arange(n_future, device=mu.device)
    cos, sin = (x.double().mean(dim=0) for x in angles(weights.inv_freq, pos, cfg.rope.attention_factor))
    identity = torch.eye(cfg.d_head, dtype=torch.float64, device=mu.device)
    R = rotate_double(identity, cos, sin).mT  # columns: where each axis goes
    return mu @ R.mT, R @ sigma @ R.mT


def rotate_double(x, cos, sin):
    """rope.rotate without its float32: x [... d] float64."""
    one, two = x.chunk(2, dim=-1)
    return torch.cat((one * cos - two * sin, two * cos + one * sin), dim=-1)
