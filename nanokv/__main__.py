"""The command line: `python -m nanokv`, `... generate`, `... methods`. See `--help` and README.md."""

import json
import os
import sys
import time
import warnings

import torch

from nanokv import UserError
from nanokv.arguments import (
    bar,
    check_output,
    choose_dtype,
    choose_method,
    choose_plan,
    encode,
    parser,
    read_prompt,
    seeded,
    write,
)
from nanokv.buffer import rows_held
from nanokv.chat import Stream, pieces, read_chat, stop_ids
from nanokv.config import read_config
from nanokv.demo import demo
from nanokv.generate import check, generate
from nanokv.load import read_weights
from nanokv.masks import causal
from nanokv.methods import METHODS
from nanokv.options import options_of
from nanokv.own import own_mask
from nanokv.page import page
from nanokv.sample import sampler
from nanokv.trace import trace


def main(argv=None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    try:
        args = parser().parse_args(argv)
        run = {"generate": run_generate, "methods": run_methods, None: run_demo}[args.command]
        with torch.inference_mode(), warnings.catch_warnings():
            warnings.showwarning = lambda message, *_: print(f"nanokv: warning: {message}", file=sys.stderr)
            run(args)
        return 0
    except KeyboardInterrupt:
        print("nanokv: interrupted", file=sys.stderr)
        return 130
    except Exception as e:
        if "--debug" in argv:
            raise
        plain = isinstance(e, UserError | OSError | AssertionError) and str(e)
        what = str(e) if plain else f"{type(e).__name__}: {e} (--debug shows where)"
        print("nanokv: error: " + " ".join(what.split()), file=sys.stderr)
        return 1


def run_methods(args):
    row = "{:<20} {:<32} {:<15} {:<8} {:<10} {:<22} {}; {}"
    print(row.format("method", "paper", "rows shared by", "budget", "schedule", "protects", "keeps", "options"))
    share = {"token": "all", "layer": "a layer's heads", "head": "nobody"}
    for m in METHODS:
        rule = "-" if m.score is None else m.allocate
        schedule = "-" if m.score is None else "once" if m.once else "every J/4"
        options = " ".join(f"{name}={value}" for name, value in options_of(m).items())
        protects = m.protect or "-"
        print(row.format(m.name, m.paper, share[m.level], rule, schedule, protects, m.keeps, options or "-"))


def run_demo(args):
    from weights.get import ensure_default

    folder = ensure_default()

    def progress(name):
        return bar(name, quiet=False)

    shown, chat = demo(folder, lambda line: print(line, flush=True), progress)
    write_page("trace.html", shown, chat)
    print(f"\nWhat {shown['method']} kept, refresh by refresh: trace.html")


def run_generate(args):
    method = choose_method(args)
    prompt = read_prompt(args)
    for path in filter(None, (args.trace, args.page)):
        check_output(path)
    cfg, chat = read_config(args.model), read_chat(args.model)
    ids, n_system = encode(chat, prompt, args)
    plan, options = choose_plan(args, method, n_system)
    dtype, pick = choose_dtype(args, cfg), sampler(args.temperature, args.top_p)
    mask, rng = own_mask(args.mask) if args.mask else causal, seeded(args)
    check(cfg, ids, plan, args.max_new_tokens)
    start = time.perf_counter()
    weights = read_weights(args.model, cfg, dtype, args.device, bar("load", args.quiet))
    load_seconds = time.perf_counter() - start
    if not args.quiet:
        print(header(args, method, plan, dtype, len(ids)), file=sys.stderr)
    if plan.score and len(ids) + args.max_new_tokens > cfg.n_positions:
        warnings.warn(f"positions go past the {cfg.n_positions} that the model was made for")
    say = Speaker(chat)
    run = generate(
        weights,
        cfg,
        ids,
        plan,
        args.max_new_tokens,
        stop_ids=set() if args.ignore_eos else stop_ids(cfg, chat),
        pick=pick,
        rng=rng,
        n_ids=chat.n_ids,
        mask=mask,
        on_token=say.token,
        on_chunk=bar("prompt", args.quiet),
    )
    finish(args, chat, run, plan, method, options, dtype, say.end(), load_seconds)


class Speaker:
    """Prints an answer as it comes, whole characters only; `end` returns all of it."""

    def __init__(self, chat):
        self.stream, self.said = Stream(chat), []

    def show(self, text: str):
        self.said.append(text)
        put(text)

    def token(self, token: int):
        self.show(self.stream.push(token))

    def end(self) -> str:
        self.show(self.stream.rest())
        put("\n")
        return "".join(self.said)


def put(text: str):
    try:
        print(text, end="", flush=True)
    except OSError as e:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or Python complains once more when it closes
        raise UserError(f"cannot write the answer: {e.strerror}") from None
    except UnicodeEncodeError as e:
        what = f"{e.object[e.start]!a} of the answer, in {e.encoding}"
        raise UserError(f"standard output cannot show {what}: try PYTHONIOENCODING=utf-8") from None


def finish(args, chat, run, plan, method, options, dtype, text, load_seconds):
    """The closing line on stderr, and the files that were asked for."""
    options = {**options, "--protect": str(plan.protection), "--mask": args.mask}  # a method may have its own mask
    options |= {"--temperature": args.temperature, "--top-p": args.top_p, "--seed": args.seed}
    done = trace(run, plan, args.model, method.name, options, dtype, text)
    done["seconds"] = {"load": round(load_seconds, 4), **done["seconds"]}
    if not args.quiet:
        rows, n_refreshes = sorted({n for heads in rows_held(run.kv) for n in heads}), len(run.refreshes)
        kept = rows[0] if len(rows) == 1 else f"{rows[0]} to {rows[-1]}"  # layers or heads that keep other numbers
        print(f"[{run.kv.n_seen} seen, {kept} kept, {n_refreshes} refreshes, stop: {run.stop}]", file=sys.stderr)
    if plan.score and not run.refreshes and run.kv.peak_rows > plan.budget:
        warnings.warn(f"{run.kv.peak_rows} rows are over the budget of {plan.budget}, and no refresh was due (--every)")
    if args.trace:
        write(args.trace, json.dumps(done))
    if args.page:
        write_page(args.page, done, chat)


def write_page(path, done: dict, chat):
    html = page(done, pieces(chat, done["prompt_ids"] + done["output_ids"]))
    write(path, html)


def header(args, method, plan, dtype, n_prompt: int) -> str:
    where = f"{args.model}, {str(dtype).removeprefix('torch.')} on {args.device}"
    if plan.score is None:
        return f"[{where}; {method.name}; {n_prompt} prompt tokens]"
    when = f"every {plan.every}" if plan.every else "once after the prompt"
    p = plan.protection
    kept = f"{p.leading} leading and {p.newest(plan.budget)} newest rows protected"
    return f"[{where}; {method.name}, budget {plan.budget}, {when}, {kept}; {n_prompt} prompt tokens]"


if __name__ == "__main__":
    sys.exit(main())
