"""Run tasks: `python -m eval.run --task ruler/niah_single_1@4096 --method snapkv lore_e --budget 128 512 --out runs/`.

Every answer is one line of a JSONL file in --out, written before the next begins: stop it however you like and start
it again with the same words, and it goes on. `python -m eval.table runs/` reads them. Under torchrun, or any launcher
that sets RANK and WORLD_SIZE, each process takes its share of the samples and writes its own file.
"""

import os
import sys
from dataclasses import replace

import torch
from tqdm import tqdm

from eval.answer import Model
from eval.examine import Examination, examine
from eval.jobs import jobs_of
from eval.prompts import counter
from eval.record import Record
from eval.run_arguments import arguments, plan_runs
from eval.run_settings import settings_of, versions
from eval.task import Request
from eval.tasks import find_task
from nanokv import UserError
from nanokv.chat import read_chat, stop_ids
from nanokv.config import read_config
from nanokv.load import read_weights


def main(argv=None) -> int:
    try:
        with torch.inference_mode():
            return run_all(arguments(argv))
    except KeyboardInterrupt:
        print("eval.run: interrupted; the same command goes on from here", file=sys.stderr)
        return 130
    except (UserError, OSError) as e:
        print("eval.run: error: " + " ".join(str(e).split()), file=sys.stderr)
        return 1


def run_all(args) -> int:
    """1 where an answer failed. Everything is read and checked before the weights are."""
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    runs, cfg, chat = plan_runs(args), read_config(args.model), read_chat(args.model)
    work = [(run, exams_of(run, args, chat)) for run in runs]
    names = record_names(args, runs, cfg)
    weights, failures = {}, 0
    for (run, exams), (name, settings) in zip(work, names):
        dtype = settings["dtype"]
        if dtype not in weights:  # one at a time in memory
            weights = {dtype: read_weights(args.model, cfg, getattr(torch, dtype), device_of(args))}
        model = Model(weights[dtype], cfg, chat, frozenset(stop_ids(cfg, chat)))
        record = Record(args.out, name, settings, rank, world)
        try:
            failures += run_one(model, record, exams[rank::world], jobs_of(run), args.quiet or rank > 0)
        finally:
            record.close()
    if failures:
        print(f"eval.run: {failures} answers failed; their lines say why and count as wrong", file=sys.stderr)
    return 1 if failures else 0


def run_one(model: Model, record: Record, exams: list, jobs: list, quiet: bool) -> int:
    """Answer what is not answered yet. Returns how many failed."""
    about, failures = versions(model), 0
    todo = [(exam, [job for job in jobs if exam.key(job) not in record.done]) for exam in exams]
    done = sum(len(jobs) - len(left) for _, left in todo)
    with tqdm(total=len(jobs) * len(exams), initial=done, unit="answer", smoothing=0.02, disable=quiet) as bar:
        for exam, left in todo:
            bar.set_description(f"{exam.task} {exam.ask}")
            for line in examine(model, exam, left) if left else ():
                failures += line["error"] is not None
                record.write({**line, "versions": about})
                bar.update()
    return failures


def exams_of(run: dict, args, chat) -> list:
    """Every task's samples under every protocol and seed. An absent file is an error, or named and left out."""
    exams = []
    for spec in run["task"]:
        for seed in run["seeds"]:
            try:
                exams += exams_of_task(run, args, chat, spec, seed)
            except UserError as e:
                if not run["optional"] or not str(e).startswith(("this task reads", "missing file")):
                    raise UserError(str(e) if spec in str(e) else f"task {spec}: {e}") from None
                print(f"eval.run: left out {spec}: {e}", file=sys.stderr)
                break
    return exams


def exams_of_task(run: dict, args, chat, spec: str, seed: int) -> list:
    task, length = find_task(spec)
    raw = run["settings"].get("raw", False)
    if task.needs_length and run["samples"] is None:
        raise UserError("it is made, not read: say how many with --samples")
    samples = task.load(Request(run["samples"] or sys.maxsize, seed, length, args.data, counter(chat, raw)))
    if "after" in run["ask"] and not all(sample.question for sample in samples):
        raise UserError("--ask after needs a question that comes after a text, which this task has not")
    return [
        Examination(
            spec,
            replace(sample, chat=sample.chat and not raw),
            task.score,
            ask,
            seed,
            run["max_new_tokens"],
            run["max_prompt"],
            not args.no_fidelity,
        )
        for sample in samples
        for ask in run["ask"]
    ]


def record_names(args, runs: list, cfg) -> list:
    """(name of the file, settings) of each run: runs with the same settings share a file, others have their own."""
    settings = [settings_of(args, run, cfg) for run in runs]
    distinct = [s for i, s in enumerate(settings) if s not in settings[:i]]
    number = [distinct.index(s) for s in settings]
    return [(f"{args.name}-{i + 1}" if i else args.name, s) for i, s in zip(number, settings)]


def device_of(args) -> str:
    """--device cuda under a launcher: this process's own GPU."""
    return f"cuda:{os.environ.get('LOCAL_RANK', 0)}" if args.device == "cuda" else args.device


if __name__ == "__main__":
    sys.exit(main())
