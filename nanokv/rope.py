"""Rotary position embedding: rotate by an explicit position (arXiv 2104.09864), half-split layout.

Dimension i turns together with dimension i + d/2 (not with i + 1, as in the interleaved layout of GGUF and of the
original Llama files): [1, 0, 0, 0] at position 1 becomes [cos 1, 0, sin 1, 0].
"""

import math

import torch

from nanokv.config_rope import Rope


def inverse_frequencies(rope: Rope, d_head: int) -> torch.Tensor:
    """Radians per position of each of the d/2 planes: float32 [d/2], scaled as the checkpoint asks. Never cast down."""
    plane = torch.arange(0, d_head, 2, dtype=torch.float32) / d_head
    frequency = 1.0 / rope.theta**plane
    if rope.kind == "linear":
        return frequency / rope.factor
    if rope.kind == "llama3":
        return llama3(rope, frequency)
    if rope.kind == "yarn":
        return yarn(rope, frequency, d_head)
    return frequency


def llama3(rope: Rope, frequency: torch.Tensor) -> torch.Tensor:
    """Llama 3.1: slow planes are stretched by `factor`, fast ones kept, those between blended."""
    turns = rope.n_original * frequency / (2 * math.pi)  # full turns within the original length
    blend = (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor)
    blend = blend.clamp(0, 1)
    return (1 - blend) * frequency / rope.factor + blend * frequency


def yarn(rope: Rope, frequency: torch.Tensor, d_head: int) -> torch.Tensor:
    """YaRN, "NTK by parts" (arXiv 2309.00071, Sec. 3.2): the ramp runs over plane numbers."""

    def plane_with(turns: float) -> float:
        return d_head * math.log(rope.n_original / (turns * 2 * math.pi)) / (2 * math.log(rope.theta))

    low, high = plane_with(rope.beta_fast), plane_with(rope.beta_slow)
    if rope.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, d_head - 1)
    high = high + 0.001 if low == high else high  # a ramp of no width
    ramp = (torch.arange(d_head // 2, dtype=torch.float32) - low) / (high - low)
    stretched = ramp.clamp(0, 1)
    return stretched * frequency / rope.factor + (1 - stretched) * frequency


def angles(inv_freq, pos, factor: float = 1.0):
    """cos and sin of every plane. inv_freq [d/2], pos [...] -> two float32 [... d/2]; `factor` is YaRN's."""
    angle = pos.float()[..., None] * inv_freq
    return angle.cos() * factor, angle.sin() * factor


def rotate(x, cos, sin):
    """Turn each plane (i, i + d/2) of x [... t d] by its angle [... t d/2]; float32 inside, x's dtype outside."""
    first, second = x.float().chunk(2, dim=-1)
    turned = x.float() * torch.cat((cos, cos), dim=-1)
    left, right = turned.chunk(2, dim=-1)
    left.addcmul_(second, sin, value=-1)  # first cos - second sin
    right.addcmul_(first, sin)  # second cos + first sin
    return turned.to(x.dtype)


def query_scale(rope: Rope, pos):
    """Ministral 3: queries far into the text grow. pos [t] -> float32 [t]."""
    return 1 + rope.q_scale_beta * torch.log1p(torch.floor(pos.float() / rope.n_original))
