from eval.recipes import LONGBENCH

TITLE = "What LORE-KV's parts add: trajectories, their weights, the lookahead itself"
SOURCE = "arXiv 2610.07643, figures on query states and coverage by M, and the criterion comparison, B = 128"
READING = """The paper measures coverage and recall inside the method; here the same switches by what they do to
scores and fidelity. No lookahead, one to eight trajectories, equal weights, and the queries that the full cache will
really ask."""

RUNS = [
    dict(
        task=[f"longbench/{name}" for name in LONGBENCH],
        method=["full", "lore_window", "lore_uniform", "lore_oracle", "lore_e", "lore_d"]
        + [f"lore_e M={M}" for M in (1, 2, 8)],
        budget=[128],
        every="once",
        max_prompt=31500,
    )
]
