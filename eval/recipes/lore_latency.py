from eval.recipes import LONGBENCH

TITLE = "Seconds of a sample by stage, and what they buy"
SOURCE = "arXiv 2610.07643, latency figure (Mistral-7B-Instruct-v0.2)"
READING = """Prefill, score (with the lookahead) and decode of each sample are in the files; the table's column s is
their sum. The page gives 1.46-2.77 x AnDPro. Ten samples a task. One prefill may serve several methods: each sample
then carries its seconds in full, which include what all of them record."""

RUNS = [
    dict(
        task=[f"longbench/{name}" for name in LONGBENCH],
        method=["snapkv", "criticalkv", "andpro", "lore_e", "lore_d"],
        budget=[128],
        every="once",
        samples=10,
        max_prompt=31500,
    )
]
