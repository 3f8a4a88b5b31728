"""The words of `python -m eval.run`, made into runs: dicts of a recipe's form, whoever names them."""

import argparse
from pathlib import Path

from eval.recipe import checked, read_recipe
from nanokv import UserError

OVER = (
    "samples",
    "seeds",
    "dtype",
    "max_new_tokens",
    "max_prompt",
    "ask",
)  # given beside a recipe, these replace its own
ALONE = ("task", "method", "budget", "every", "protect")  # a recipe says these itself


def arguments(argv=None):
    p = argparse.ArgumentParser(prog="python -m eval.run", description="Answer a benchmark under eviction.")
    p.add_argument("--model", help="a checkpoint's folder (default: the embedded SmolLM2-135M-Instruct)")
    p.add_argument("--recipe", metavar="NAME", help="a file of eval/recipes, or FILE.py of that form")
    p.add_argument("--task", nargs="+", metavar="TASK", help="name, or name@tokens for a task of any length")
    p.add_argument("--method", nargs="+", help="each may carry options: 'causal_surprise span=17'")
    p.add_argument("--budget", nargs="+", type=int, help="rows per layer and kv head, everything counted")
    p.add_argument("--every", help="refresh every h tokens: a number, J/4, J/2, or once (default: each method's own)")
    p.add_argument("--ask", nargs="+", help="before: the question is read before the eviction; after: it comes later")
    p.add_argument("--samples", type=int, help="at most so many of each task")
    p.add_argument("--seeds", nargs="+", type=int, help="of made tasks and of methods that draw (default: 0)")
    p.add_argument("--protect", help="rows that always stay, as in nanokv generate; none drops a method's own")
    p.add_argument("--max-new-tokens", type=int, help="at most so many, and at most the task's own")
    p.add_argument("--max-prompt", type=int, help="cut longer prompts in the middle")
    p.add_argument("--raw", action="store_true", help="no chat template")
    p.add_argument("--allocate", help="uniform, pyramid or ada instead of the method's own")
    p.add_argument("--budget-excludes-protected", action="store_true")
    p.add_argument("--data", type=Path, help="the folder of the benchmarks' files; see eval/README.md")
    p.add_argument("--out", type=Path, default=Path("runs"), help="folder of the result files (default: runs)")
    p.add_argument("--name", help="of the result file (default: the recipe's, or run)")
    p.add_argument("--dtype", help="auto, float32, bfloat16 or float16")
    p.add_argument("--device", default="cpu", help="cpu or cuda")
    p.add_argument("--no-fidelity", action="store_true", help="leave out the comparison with the full cache")
    p.add_argument("--quiet", action="store_true")
    return p.parse_args(argv)


def plan_runs(args) -> list:
    """The runs, checked. Fills in args.model and args.name."""
    if args.model is None:
        from weights.get import ensure_default

        args.model = ensure_default()
    runs = recipe_runs(args) if args.recipe else [checked(line_run(args), "this command line")]
    args.name = args.name or (Path(args.recipe).stem if args.recipe else "run")
    return runs


def recipe_runs(args) -> list:
    clash = [name for name in ALONE if getattr(args, name) is not None]
    if clash:
        raise UserError(f"--{clash[0]} stands in the recipe: copy the file and change it there")
    over = {name: getattr(args, name) for name in OVER if getattr(args, name) is not None}
    recipe = read_recipe(args.recipe)
    return [
        checked({**run, **over, "settings": {**run["settings"], **settings(args)}}, f"recipe {recipe.name}")
        for run in recipe.runs
    ]


def line_run(args) -> dict:
    lacking = [name for name in ("task", "method") if not getattr(args, name)]
    if lacking:
        raise UserError(f"--{lacking[0]} is missing; or take a --recipe")
    given = {name: getattr(args, name) for name in (*OVER, *ALONE) if getattr(args, name) is not None}
    if args.every and args.every.isdecimal():
        given["every"] = int(args.every)
    return {**given, "settings": settings(args)}


def settings(args) -> dict:
    """What the line sets of eval.jobs.SETTINGS; what is not set stays out, so that it does not mark a file."""
    words = {"raw": args.raw, "allocate": args.allocate, "budget_excludes_protected": args.budget_excludes_protected}
    return {name: value for name, value in words.items() if value}
