TITLE = "MATH500 under J = 512"
SOURCE = "arXiv 2607.27600, Table 2 (Qwen2.5-3B/7B/14B-Instruct, Llama-3.1-8B-Instruct)"
READING = """h = 256, as this table's caption and the released command have it; elsewhere the paper says J/4
throughout. Nothing is frozen, the prompt is raw text, float16 as in the released code (the checkpoints are bfloat16:
expect accuracies within 0.016 of each other). The first run is the paper's Algorithm 1; the second, with `partial=1`,
the loop of the released code, which the printed figures come from and which also pairs a generated row with the next
token. Its H2O and Importance are the released proxies; `h2o` and `tova` are what those names mean elsewhere."""

RUNS = [
    dict(
        task=["math500"],
        method=["full", "counter_causal", "counter_causal_fast", "sliding_window", "h2o", "tova", "random"],
        budget=[512],
        every=256,
        dtype="float16",
    ),
    dict(
        task=["math500"],
        method=[
            "counter_causal partial=1",
            "counter_causal_fast partial=1",
            "sliding_window partial=1",
            "h2o_released partial=1",
            "importance_released partial=1",
        ],
        budget=[512],
        every=256,
        dtype="float16",
    ),
]
