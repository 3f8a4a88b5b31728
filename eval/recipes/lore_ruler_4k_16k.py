from eval.recipes import RULER

TITLE = "RULER, average of 13 tasks by budget, 4K to 16K"
SOURCE = "arXiv 2610.07643, RULER figure (Mistral-7B-Instruct-v0.2, Llama-3.1-8B-Instruct)"
READING = """Budgets 128 to 1024, everything kept counted. The number of samples is not printed: RULER's own 500 a
task and length, days of one GPU; --samples 50 for a first look. The texts are made here from RULER's rules, not
byte-identical to its own. Question-aware: question and answer prefix are read before the eviction."""

RUNS = [
    dict(
        task=[f"ruler/{name}@{length}" for length in (4096, 8192, 16384) for name in RULER],
        method=["full", "criticalkv", "andpro", "lore_e", "lore_d"],
        budget=[128, 256, 512, 1024],
        every="once",
        samples=500,
    )
]
