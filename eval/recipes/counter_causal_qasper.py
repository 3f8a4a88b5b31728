TITLE = "Qasper, F1 by cache size"
SOURCE = "arXiv 2607.27600, Figure 5 (Llama-3.1-8B-Instruct)"
READING = """All questions of the v0.3 dev file in the paper's own prompt and answer order, which is not LongBench's
qasper. Cache sizes are not printed: ours. h = J/4; the frozen instruction counts within J. The score is the paper's
F1, which keeps only a leading yes, no or unanswerable; the official one is among each sample's details. The paper
finds all strategies nearly equal here."""

RUNS = [
    dict(
        task=["qasper"],
        method=[
            "full",
            "counter_causal partial=1",
            "counter_causal_fast partial=1",
            "sliding_window partial=1",
            "h2o_released partial=1",
            "importance_released partial=1",
        ],
        budget=[512, 1024, 2048, 4096],
        every="J/4",
        dtype="float16",
    )
]
