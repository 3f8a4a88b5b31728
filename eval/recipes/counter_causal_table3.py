TITLE = "AIME in thinking mode, J = 4096, up to 16,384 new tokens"
SOURCE = "arXiv 2607.27600, Table 3 (Qwen3-8B)"
READING = """h is not printed: J/4 = 1024, the released code's default. The accuracies are multiples of 1/90, so 90
problems in one greedy answer each; which 90 is not said. Here 2024 and 2025, whose 60 problems are the ones at hand:
name the years you have. The table's pred=None is the column `no answer`. Qwen3's card advises against greedy decoding
in thinking mode; the paper decodes greedily. The released code has no AIME task, so its loop is not run here."""

RUNS = [
    dict(
        task=["aime2024", "aime2025"],
        method=[
            "full",
            "counter_causal",
            "counter_causal_fast",
            "h2o_released",
            "sliding_window",
            "importance_released",
        ],
        budget=[4096],
        every="J/4",
        max_new_tokens=16384,
    )
]
