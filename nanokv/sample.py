"""Pick the next token from its logits."""

import torch

from nanokv import UserError


def greedy(logits, rng=None) -> int:
    """The largest logit. logits [v]; touches no random state."""
    return int(checked(logits).argmax())


def sampler(temperature: float = 1.0, top_p: float = 1.0):
    """A picker that draws from softmax(logits / temperature), cut to the smallest set that holds `top_p` of the mass.

    Temperature 0 is `greedy`. The most likely token always stays, whatever top_p says.
    """
    if not temperature >= 0 or not 0 <= top_p <= 1:
        raise UserError(f"temperature {temperature} and top_p {top_p}: need temperature >= 0 and 0 <= top_p <= 1")
    if temperature == 0:
        return greedy

    def pick(logits, rng=None) -> int:
        logits = checked(logits).float()
        # from the largest down, so that no temperature is small enough to overflow
        probs = nucleus(((logits - logits.max()) / temperature).softmax(dim=-1), top_p)
        return int(torch.multinomial(probs, 1, generator=rng))

    return pick


def nucleus(probs, top_p: float):
    """Zero outside the smallest set of most likely tokens whose mass reaches top_p; never empty. probs [v] -> [v]."""
    likely, order = probs.sort(descending=True, stable=True)
    mass_before = likely.cumsum(dim=-1) - likely
    keep = (mass_before < top_p) | (top_p == 1)  # sums of many small numbers may pass 1 early
    keep[0] = True
    kept = torch.where(keep, likely, 0)
    return torch.zeros_like(probs).scatter(-1, order, kept / kept.sum())


def checked(logits):
    if torch.isnan(logits).any() or torch.isposinf(logits).any():
        raise UserError("the logits are NaN or infinite: a broken checkpoint, or a dtype too narrow for it")
    return logits
