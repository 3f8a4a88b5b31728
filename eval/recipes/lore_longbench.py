from eval.recipes import LONGBENCH

TITLE = "LongBench, average of 16 English tasks at B = 128"
SOURCE = "arXiv 2610.07643, LongBench table (Mistral-7B-Instruct-v0.2, Llama-3.1-8B, Qwen2.5-14B, Ministral-3-8B)"
READING = """B counts every row kept, sinks and window included; Eq. 8 read literally keeps B beside them: run it once
more with --budget-excludes-protected. Prompts longer than 31,500 tokens are cut in the middle, LongBench's length for
32k models; the paper does not give its own for 128k models. Chat template as the official rule has it: all but six
tasks. Question-aware. The lookahead is sampled, so three seeds; the paper says of none."""

TASKS = [f"longbench/{name}" for name in LONGBENCH]
RUNS = [
    dict(task=TASKS, method=["full", "criticalkv", "andpro"], budget=[128], every="once", max_prompt=31500),
    dict(task=TASKS, method=["lore_e", "lore_d"], budget=[128], every="once", max_prompt=31500, seeds=[0, 1, 2]),
]
