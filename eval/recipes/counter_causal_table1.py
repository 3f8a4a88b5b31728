TITLE = "What a refresh costs: seconds and memory of a MATH500 sample"
SOURCE = "arXiv 2607.27600, Table 1 (Qwen2.5-7B-Instruct, RTX 4090, fp16)"
READING = """The table's end-to-end seconds and peak memory come from here: see the columns s, peak rows and MiB. Its
milliseconds a refresh at n = 512 and 4096 are no benchmark: `python -m eval.bench --lines refresh` measures them. The
paper does not say how many problems it timed; 20 here."""

RUNS = [
    dict(
        task=["math500"],
        method=[
            "full",
            "sliding_window",
            "importance_released",
            "h2o_released",
            "counter_causal",
            "counter_causal_fast",
        ],
        budget=[512],
        every=256,
        samples=20,
        dtype="float16",
    )
]
