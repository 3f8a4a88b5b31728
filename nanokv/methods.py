"""The named presets: a score with its budget rule, schedule, protected rows and options, in each paper's convention."""

from dataclasses import dataclass, field

from nanokv import UserError, key_scores, released, scores, window_scores
from nanokv.laq import laq, watch_first_window
from nanokv.lore import andpro_lookahead, lore
from nanokv.scores import watch_last_queries
from nanokv.surprise import surprise, watch_resid


@dataclass(frozen=True)
class Method:
    """`level`: who shares one set of rows: "token" (everybody), "layer" (the heads of a layer) or "head" (nobody).

    `protect` uses the command line's words. `once`: refresh once after the prompt; else every h = budget / 4.
    """

    name: str
    paper: str
    keeps: str
    level: str = "token"
    score: object = None
    watch: object = None
    observe: object = None
    finish: object = None
    adjust: object = None
    protect: str = "system"
    allocate: str = "uniform"
    once: bool = False
    score_when_idle: bool = False
    options: dict = field(default_factory=dict)  # where the preset differs from the score's own defaults


CC, FAST = "arXiv 2607.27600, Eq. 1", "arXiv 2607.27600, Sec. 3.3"
CC_RELEASED = "arXiv 2607.27600, released code"
CONTROL = "control"
LORE = "arXiv 2610.07643"


def windowed(name, paper, keeps, score, watch=watch_last_queries, protect="recent:window", **more) -> Method:
    """A head-level method that looks once, after the prompt, with its newest queries."""
    return Method(name, paper, keeps, "head", score, watch, protect=protect, once=True, **more)


def lore_like(name, keeps, score=lore, **options) -> Method:
    return windowed(name, LORE, keeps, score, protect="sinks:4,recent:window", options=options)


METHODS = [
    Method("full", "-", "everything", protect=""),
    Method("counter_causal", CC, "what its future does not predict", score=surprise, watch=watch_resid),
    Method(
        "counter_causal_fast",
        FAST,
        "the same by the last layer's attention alone",
        score=surprise,
        watch=watch_resid,
        options={"last": 1, "mlp": False},
    ),
    Method("sliding_window", "arXiv 2607.27600, Sec. 4", "the newest rows", score=scores.recency),
    Method(
        "streaming_llm",
        "arXiv 2309.17453",
        "the first and the newest rows",
        score=scores.streaming_llm,
        adjust=scores.renumber,
        protect="sinks:4",
    ),
    Method(
        "h2o",
        "arXiv 2306.14048",
        "attention from all queries so far, and the recent half",
        level="head",
        score=scores.h2o,
        watch=scores.watch_mass,
        protect="recent:50%",
    ),
    Method(
        "tova",
        "arXiv 2401.06104",
        "the newest query's attention, mean over heads",
        level="layer",
        score=scores.tova,
        watch=scores.watch_last_queries,
        protect="",
    ),
    Method(
        "h2o_released",
        CC_RELEASED,
        "its proxy for H2O: newest keys as queries, no mask",
        score=released.h2o_released,
        protect="system,recent:50%",
        score_when_idle=True,
    ),
    Method(
        "importance_released",
        CC_RELEASED,
        "its proxy for TOVA: newest key times every key, last layer",
        score=released.importance_released,
    ),
    Method(
        "causal_surprise",
        CONTROL,
        "-log p(x_i | x_<i), mean over neighbours",
        score=scores.causal_surprise,
        observe=scores.observe_causal_surprise,
        protect="system,recent:16",
    ),
    Method("random", CONTROL, "a uniform sample", score=scores.random, watch=scores.watch_luck, protect="recent:16"),
    windowed("snapkv", "arXiv 2404.14469", "attention of the newest queries, pooled", window_scores.snapkv),
    windowed(
        "pyramidkv",
        "arXiv 2406.02069",
        "snapkv, more rows in lower layers",
        window_scores.snapkv,
        allocate="pyramid",
    ),
    windowed("adakv", "arXiv 2407.11550", "snapkv, more rows in stronger heads", window_scores.snapkv, allocate="ada"),
    windowed(
        "criticalkv",
        "arXiv 2502.03805",
        "half by attention, half by attention x ‖W_O v‖₁",
        window_scores.criticalkv,
        finish=window_scores.finish_criticalkv,
    ),
    windowed(
        "andpro",
        "AnDPro, NeurIPS 2025",
        "values along the window's own output",
        window_scores.andpro,
        protect="sinks:4,recent:window",
    ),
    windowed("obcache", "OBCache", "squared output change, by derivative", window_scores.obcache),
    windowed("caote", "CAOTE", "exact output change of one deletion", window_scores.caote),
    windowed("caote_fast", "CAOTE", "the same around the mean value", window_scores.caote, options={"fast": True}),
    windowed(
        "expected_attention",
        "arXiv 2510.00636",
        "attention of a Gaussian model of the prompt's queries",
        key_scores.expected_attention,
        watch=key_scores.watch_query_moments,
        protect="sinks:4",
    ),
    windowed("laq", "Lookahead Q-Cache", "attention of greedy pseudo-queries", laq, watch=watch_first_window),
    windowed("keydiff", "arXiv 2504.15364", "keys unlike the mean key", key_scores.keydiff, watch=None, protect=""),
    windowed("key_norm", "arXiv 2406.11430", "small keys", key_scores.key_norm, watch=None, protect=""),
    lore_like("lore_e", "what sampled continuations would miss most; /E", beta=1.0, gamma=1.3, lambda_D=0.0),
    lore_like("lore_d", "the same weighing disagreement too; /D", beta=1.0, gamma=1.0, lambda_D=0.3),
    lore_like("lore_window", "control: the prompt window alone", lambda_L=0.0),
    lore_like("lore_uniform", "control: trajectories weigh the same", omega="uniform"),
    lore_like("lore_oracle", "control: the queries the full cache will ask", queries="greedy", M=1, T=64),
    lore_like("andpro_lookahead", "control: AnDPro on the same continuations", andpro_lookahead),
    Method("unigram", CONTROL, "the rarest words held", score=scores.unigram, protect="system,recent:16"),
]


def find(name: str) -> Method:
    for method in METHODS:
        if method.name == name:
            return method
    raise UserError(f"unknown method {name!r}; there are: {', '.join(m.name for m in METHODS)}")
