from eval.recipes import RULER

TITLE = "RULER by length up to 128K at B = 128"
SOURCE = "arXiv 2610.07643, table at 64K and 128K and figure by context length (Llama-3.1-8B-Instruct)"
READING = """Everything kept counted within B. The number of samples is not printed: 50 a task and length here. qa_1
at 128K wants more paragraphs than SQuAD's dev file may hold; it is refused rather than filled with repeats."""

RUNS = [
    dict(
        task=[f"ruler/{name}@{length}" for length in (4096, 8192, 16384, 32768, 65536, 131072) for name in RULER],
        method=["full", "criticalkv", "andpro", "lore_e", "lore_d"],
        budget=[128],
        every="once",
        samples=50,
    )
]
