TITLE = "LoCoMo, F1 by cache size"
SOURCE = "arXiv 2607.27600, Figure 5 (Llama-3.1-8B-Instruct)"
READING = """Cache sizes are not printed: 15000 is what an independent re-run of the code took, the others are ours. h
= J/4; the frozen instruction counts within J. Which mean the figure shows is not said: run all five categories and
read `eval.table --by category`. Category 5 rewards a cache that has lost everything. The prompt is the paper's; the
official set-up is another."""

RUNS = [
    dict(
        task=["locomo"],
        method=[
            "full",
            "counter_causal partial=1",
            "counter_causal_fast partial=1",
            "sliding_window partial=1",
            "h2o_released partial=1",
            "importance_released partial=1",
        ],
        budget=[2000, 4000, 8000, 15000],
        every="J/4",
        dtype="float16",
    )
]
