from eval.recipes import LONGBENCH, RULER

TITLE = "Smoke: every task touched, n = 2, not comparable with anything"
SOURCE = "none: checks an installation on the embedded default, SmolLM2-135M-Instruct, in under 20 minutes on 2 cores"
READING = """A model of this size scores near the floor on most of these; what it shows is that prompts fit, caches
shrink and answers are scored. Answers and file prompts are cut short."""

READ = ["qa_1", "qa_2"]  # of RULER's 13, those that read a file
METHODS = ["full", "snapkv", "counter_causal_fast", "lore_e", "random"]
RUNS = [
    dict(
        task=[f"ruler/{name}@1024" for name in RULER if name not in READ] + ["needle@1024"],
        method=METHODS,
        budget=[128],
        samples=2,
        max_new_tokens=32,
    ),
    dict(
        task=[f"ruler/{name}@1024" for name in READ]
        + [f"longbench/{name}" for name in LONGBENCH]
        + ["longhealth", "locomo", "qasper", "math500", "aime2024", "aime2025"],
        method=METHODS,
        budget=[128],
        samples=2,
        max_new_tokens=32,
        max_prompt=1024,
        optional=True,
    ),
]
