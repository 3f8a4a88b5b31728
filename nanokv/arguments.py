"""What the command line takes, and what its words mean."""

import argparse
import os
import sys
from pathlib import Path

import torch
from tqdm import tqdm

from nanokv import UserError
from nanokv.chat import encode_chat, encode_raw, leading_ids
from nanokv.config import DTYPES
from nanokv.load import check_device
from nanokv.methods import Method, find
from nanokv.options import ALLOCATIONS, build, options_of
from nanokv.own import own_method


class Parser(argparse.ArgumentParser):
    def error(self, message):  # one line, not the whole usage
        raise UserError(message)


def parser() -> argparse.ArgumentParser:
    top = Parser(prog="python -m nanokv", description="KV-cache eviction, to be read beside the papers.")
    top.add_argument("--debug", action="store_true", help="tracebacks instead of one-line errors")
    commands = top.add_subparsers(dest="command", parser_class=Parser)
    commands.add_parser("methods", help="a table of every method")
    one = commands.add_parser("generate", help="answer one prompt under one method")
    one.add_argument("--model", required=True, help="a Hugging Face folder")
    text = one.add_mutually_exclusive_group(required=True)
    text.add_argument("--prompt")
    text.add_argument("--prompt-file")
    one.add_argument("--system", help="system turn; without it the chat template's own default")
    one.add_argument("--raw", action="store_true", help="no chat template")
    one.add_argument("--method", help="see `python -m nanokv methods`")
    one.add_argument("--score", metavar="FILE.py:FN", help="your own score(weights, cfg, kv, seen)")
    one.add_argument("--mask", metavar="FILE.py:FN", help="your own mask(q_pos, k_pos) in place of the causal one")
    one.add_argument("--budget", type=int, help="rows kept per layer and kv head, everything counted")
    one.add_argument("--budget-excludes-protected", action="store_true", help="protected rows come on top")
    when = one.add_mutually_exclusive_group()
    when.add_argument("--every", type=int, help="refresh every H tokens (default: budget / 4)")
    when.add_argument("--once", action="store_true", help="refresh once, after the prompt")
    one.add_argument("--protect", default="", help="sinks:4,recent:32,system; `none` first drops the method's own")
    one.add_argument("--allocate", help=" | ".join(ALLOCATIONS))
    one.add_argument("--max-new-tokens", type=int, default=128)
    one.add_argument("--temperature", type=float, default=0.0)
    one.add_argument("--top-p", type=float, default=1.0)
    one.add_argument("--seed", type=int, default=0)
    one.add_argument(
        "--dtype", default="auto", help="auto (float32 on a CPU, the checkpoint's own elsewhere) or a name"
    )
    one.add_argument("--device", default="cpu")
    one.add_argument("--ignore-eos", action="store_true")
    one.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a method's own option")
    one.add_argument("--trace", metavar="OUT.json")
    one.add_argument("--page", metavar="OUT.html")
    one.add_argument("--quiet", action="store_true", help="the answer only")
    one.add_argument("--debug", action="store_true", default=argparse.SUPPRESS)
    return top


def choose_method(args) -> Method:
    """The preset, or the user's own score around it."""
    preset = find(args.method) if args.method else None
    if args.score:
        return own_method(args.score, preset)
    if not preset:
        raise UserError("--method NAME or --score FILE.py:FN is needed; `python -m nanokv methods` lists the names")
    return preset


def choose_plan(args, method: Method, n_system: int):
    """(Plan, options in effect) from --budget, --every, --protect, --set and the method's defaults."""
    settings = dict(split_setting(word) for word in args.set)
    if "seed" in options_of(method):
        settings.setdefault("seed", args.seed)
    once = True if args.once else None
    given = (args.budget, args.every, once, args.protect, args.allocate, settings)
    return build(method, *given, n_system, args.budget_excludes_protected)


def encode(chat, prompt: str, args):
    """(ids, how many of them come before the user's text)."""
    if args.raw:
        if args.system is not None or "system" in args.protect.split(","):
            raise UserError("--raw has no system turn: drop --system and --protect system, or --raw")
        return encode_raw(chat, prompt), 0
    system = [{"role": "system", "content": args.system}] if args.system is not None else []
    messages = [*system, {"role": "user", "content": prompt}]
    return encode_chat(chat, messages), leading_ids(chat, messages)


def read_prompt(args) -> str:
    """The text of --prompt or --prompt-file. UserError when it is empty, or not text."""
    text = args.prompt if args.prompt is not None else read_text(args.prompt_file)
    if not text:
        raise UserError(f"the prompt is empty ({args.prompt_file or '--prompt'})")
    for option, words in (("--prompt", text), ("--system", args.system or "")):
        if any("\ud800" <= c <= "\udfff" for c in words):  # how Python hands over bytes that are not UTF-8
            raise UserError(f"{option} is not UTF-8")
    return text


def read_text(path) -> str:
    try:
        return Path(path).read_bytes().decode("utf-8")
    except UnicodeDecodeError as e:
        raise UserError(f"{path} is not UTF-8: byte {e.start} is {e.object[e.start]:#04x}") from None
    except OSError as e:
        raise UserError(f"cannot read {path}: {e.strerror}") from None


def split_setting(word: str):
    key, equals, value = word.partition("=")
    if not equals or not key:
        raise UserError(f"--set takes KEY=VALUE, not {word!r}")
    return key, value


def check_output(path):
    """UserError when no file can be written there: known before the work, not after it."""
    path = Path(path)
    if path.is_dir():
        raise UserError(f"cannot write {path}: it is a folder")
    if not path.parent.is_dir():
        raise UserError(f"cannot write {path}: there is no folder {path.parent}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UserError(f"cannot write {path}: no permission")


def write(path, text: str):
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as e:
        raise UserError(f"cannot write {path}: {e.strerror}") from None


def choose_dtype(args, cfg):
    check_device(args.device)
    if args.dtype == "auto":
        return torch.float32 if torch.device(args.device).type == "cpu" else cfg.dtype
    if args.dtype not in DTYPES:
        raise UserError(f"unknown --dtype {args.dtype!r}; there are: auto, {', '.join(DTYPES)}")
    return DTYPES[args.dtype]


def seeded(args) -> torch.Generator:
    try:
        return torch.Generator(args.device).manual_seed(args.seed)
    except (RuntimeError, ValueError, OverflowError):
        raise UserError(f"--seed must fit into 64 bits, not {args.seed}") from None


def bar(name: str, quiet: bool):
    """An on_chunk(done, n) that draws a bar on stderr."""
    shown = tqdm(desc=name, file=sys.stderr, disable=quiet, leave=False, delay=0.5)

    def to(done, n):
        shown.total = n
        shown.update(done - shown.n)
        if done == n:
            shown.close()

    return to
