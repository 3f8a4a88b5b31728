TITLE = "LongHealth, accuracy by cache size"
SOURCE = "arXiv 2607.27600, Figure 5 (Llama-3.1-8B-Instruct)"
READING = """The figure's cache sizes are not printed: 8000 is what an independent re-run of the code took, 9000
stands on its axis, 4096 is the code's default, 2048 is ours. h = J/4 of the whole J; the frozen instruction counts
within J, as in the released `--auto_frozen`. All 400 questions in their own prompt, which is none of the benchmark's
three tasks: its published scores do not compare. float16 as in the released code. `partial=1`: the released loop,
which also refreshes behind the last part of the prompt."""

RUNS = [
    dict(
        task=["longhealth"],
        method=[
            "full",
            "counter_causal partial=1",
            "counter_causal_fast partial=1",
            "sliding_window partial=1",
            "h2o_released partial=1",
            "importance_released partial=1",
        ],
        budget=[2048, 4096, 8000, 9000],
        every="J/4",
        dtype="float16",
    ),
    dict(
        task=["longhealth"],
        method=["counter_causal", "counter_causal start=blind", "causal_surprise span=17", "unigram", "random"],
        budget=[2048, 4096, 8000, 9000],
        every="J/4",
        dtype="float16",
    ),
]
