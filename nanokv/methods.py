"""The named presets: a score with its budget rule, schedule, protected rows and options, in each paper's convention."""

from dataclasses import dataclass, field

from nanokv import UserError, scores
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
    adjust: object = None
    protect: str = "system"
    once: bool = False
    score_when_idle: bool = False
    options: dict = field(default_factory=dict)  # where the preset differs from the score's own defaults


CC, FAST = "arXiv 2607.27600, Eq. 1", "arXiv 2607.27600, Sec. 3.3"
CC_RELEASED = "arXiv 2607.27600, released code"
CONTROL = "control"
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
        score=scores.h2o_released,
        protect="system,recent:50%",
        score_when_idle=True,
    ),
    Method(
        "importance_released",
        CC_RELEASED,
        "its proxy for TOVA: newest key times every key, last layer",
        score=scores.importance_released,
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
    Method("unigram", CONTROL, "the rarest words held", score=scores.unigram, protect="system,recent:16"),
]


def find(name: str) -> Method:
    for method in METHODS:
        if method.name == name:
            return method
    raise UserError(f"unknown method {name!r}; there are: {', '.join(m.name for m in METHODS)}")
