TITLE = "Small: tasks that SmolLM2-135M-Instruct can do with its full cache, both protocols, n = 50"
SOURCE = (
    "none of the papers' tables: their methods and the controls, on the embedded default, under two hours on 2 cores"
)
READING = """Every method evicts once, at the end of what it may see, so that budgets and not schedules are compared;
the counter-causal paper refreshes every h tokens instead. Confirms or refutes at this scale that a prompt's own
surprise (`causal_surprise`) keeps a planted needle where counter-causal surprise does not. A needle of random digits
flatters a surprisal score. Supports no claim of either paper about larger models or real documents."""

RUNS = [
    dict(
        task=["ruler/niah_single_1@512", "ruler/niah_single_2@512", "ruler/niah_multikey_1@512"],
        method=[
            "full",
            "random",
            "unigram",
            "sliding_window",
            "h2o",
            "snapkv",
            "causal_surprise span=1",
            "causal_surprise span=9",
            "causal_surprise span=17",
            "causal_surprise span=33",
            "counter_causal",
            "counter_causal start=blind",
            "counter_causal span=9",
            "counter_causal_fast",
            "lore_e",
            "andpro",
        ],
        budget=[64, 192],
        every="once",
        ask=["before", "after"],
        samples=50,
        max_new_tokens=16,  # the answer is a number of seven digits; what evicted caches add is not read
    )
]
