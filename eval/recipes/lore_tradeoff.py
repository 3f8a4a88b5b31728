from eval.recipes import LONGBENCH

TITLE = "LongBench by budget beside OBCache, CAOTE and Expected Attention"
SOURCE = "arXiv 2610.07643, figure on the accuracy-memory trade-off (Mistral-7B)"
READING = """Budgets as elsewhere on the page. Each baseline with its own paper's defaults; CAOTE on SnapKV's
scores."""

RUNS = [
    dict(
        task=[f"longbench/{name}" for name in LONGBENCH],
        method=["full", "obcache", "caote", "caote_fast", "expected_attention", "andpro", "lore_e", "lore_d"],
        budget=[128, 256, 512, 1024],
        every="once",
        max_prompt=31500,
    )
]
