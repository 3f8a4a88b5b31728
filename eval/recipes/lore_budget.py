from eval.recipes import LONGBENCH

TITLE = "LongBench by budget, for equal accuracy and equal fidelity"
SOURCE = "arXiv 2610.07643, figures on KV-cache efficiency at equal accuracy and on budget equivalence (Mistral-7B)"
READING = """Budgets 128 to 1024 as the page's own sweep; everything kept counted. Where the curves cross a given
score is read off the table; behavioural fidelity is not defined in print, here KL and top-1 on the full cache's own
answer (`eval.table --measure kl`). One seed."""

RUNS = [
    dict(
        task=[f"longbench/{name}" for name in LONGBENCH],
        method=["full", "snapkv", "criticalkv", "andpro", "lore_e", "lore_d"],
        budget=[128, 256, 512, 1024],
        every="once",
        max_prompt=31500,
    )
]
