"""What config.json says about rotation: two spellings read into one block, and the block into a Rope for rope.py."""

import math
import warnings
from dataclasses import dataclass

from nanokv import UserError

ROPE_KINDS = ("default", "linear", "llama3", "yarn")


@dataclass(frozen=True)
class Rope:
    """How angles are made from positions (rope.py). `kind` is one of ROPE_KINDS; unused fields keep their default."""

    theta: float = 10000.0
    kind: str = "default"
    factor: float = 1.0  # how many times longer than trained
    n_original: int = 0  # positions the model was trained on before scaling
    low_freq_factor: float = 1.0  # llama3
    high_freq_factor: float = 4.0  # llama3
    beta_fast: float = 32.0  # yarn
    beta_slow: float = 1.0  # yarn
    truncate: bool = True  # yarn: whole correction dims
    attention_factor: float = 1.0  # multiplies cos and sin
    q_scale_beta: float = 0.0  # ministral3: q grows by 1 + beta log(1 + floor(pos / n_original))


def rope_block(raw: dict) -> dict:
    """One block, nulls left out, from `rope_parameters` (new spelling) and `rope_theta` + `rope_scaling` (old).

    What both give is taken from rope_parameters, with one warning. A new dict; `raw` is not changed.
    """
    top = tidy({key: raw.get(key) for key in ("rope_theta", "partial_rotary_factor")})
    scaling, block = tidy(raw.get("rope_scaling")), tidy(raw.get("rope_parameters"))
    if top.keys() & block.keys() or (scaling and "rope_type" in block):
        warnings.warn("config.json gives the rotation twice: the one in rope_parameters is used")
    if "rope_type" in block:
        scaling = {}
    return {**top, **scaling, **block}


def tidy(block: dict | None) -> dict:
    """Without nulls; the older key `type` as rope_type."""
    block = {key: value for key, value in (block or {}).items() if value is not None}
    kind = block.pop("type", None)
    return block if kind is None else {"rope_type": kind, **block}


def override_rope(block: dict, overrides: dict) -> dict:
    """A scaling in `overrides` replaces the whole scaling but keeps the theta; a theta alone keeps the scaling."""
    if "rope_scaling" in overrides or "rope_parameters" in overrides:
        block = {key: value for key, value in block.items() if key == "rope_theta"}
    return {**block, **rope_block(overrides)}


def parse_rope(block: dict, n_positions: int) -> Rope:
    """Rope from one block of rope_block; `n_positions` is config.json's max_position_embeddings."""
    theta, kind = float(block.get("rope_theta", 10000.0)), block.get("rope_type", "default")
    refuse_unsupported(block, kind)
    if kind == "default":
        return Rope(theta=theta)
    n_original = block.get("original_max_position_embeddings")
    if "factor" not in block and not (kind == "yarn" and n_original):
        raise UserError(f"rope type {kind!r} in config.json has no factor")
    n_original = n_original or n_positions
    factor = float(block.get("factor", n_positions / n_original))
    names = ("low_freq_factor", "high_freq_factor", "beta_fast", "beta_slow", "truncate")
    scaling = {name: block[name] for name in names if name in block}
    if kind == "yarn":
        scaling["attention_factor"] = yarn_attention_factor(block, factor)
        scaling["q_scale_beta"] = block.get("llama_4_scaling_beta", 0.0)
    return Rope(theta=theta, kind=kind, factor=factor, n_original=n_original, **scaling)


def refuse_unsupported(block: dict, kind: str):
    supported = f"supported: {', '.join(ROPE_KINDS)}"
    if kind == "dynamic":
        why = "its angles change with the length, cached keys are rotated once"
        raise UserError(f"rope type 'dynamic' is refused: {why}; {supported}")
    if kind not in ROPE_KINDS:
        raise UserError(f"unknown rope type {kind!r} in config.json; {supported}")
    if block.get("partial_rotary_factor", 1.0) != 1.0:
        raise UserError("partial_rotary_factor in config.json is not 1; only whole heads are rotated here")
    nested = [key for key, value in block.items() if isinstance(value, dict)]
    if nested:
        raise UserError(f"rope_parameters in config.json differ by layer type ({', '.join(nested)}); not supported")


def yarn_attention_factor(block: dict, factor: float) -> float:
    """The given factor; else the ratio of the two mscales; else 0.1 ln(factor) + 1 (YaRN, arXiv 2309.00071, Eq. 22)."""
    if "attention_factor" in block:
        return float(block["attention_factor"])

    def mscale(m: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * m * math.log(factor) + 1.0

    m, m_all = block.get("mscale"), block.get("mscale_all_dim")
    return mscale(m) / mscale(m_all) if m and m_all else mscale(1.0)
