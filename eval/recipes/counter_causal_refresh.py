TITLE = "MATH500 by how often the cache is refreshed"
SOURCE = "arXiv 2607.27600, Sec. 4: the ratio h / J, which the paper fixes and does not vary"
READING = """Table 2 has h = J/2 and the text h = J/4; both, and two on either side. Algorithm 1. `full` is in Table
2's recipe."""

RUNS = [
    dict(
        task=["math500"],
        method=["counter_causal", "counter_causal_fast", "sliding_window", "h2o_released"],
        budget=[512],
        every=every,
        dtype="float16",
    )
    for every in (64, 128, 256, 512)
]
