"""Speed and memory beside the peer and beside the machine's limits: `python -m eval.bench [--peer-python PATH]`.

Every line alternates our run with the peer's (transformers 5.2.0, kvpress 0.5.5) in the same minute, same checkpoint,
dtype, threads, token ids and budget, and reports medians and ratios. The floor of a line is its multiplications at
the matrix rate, or its bytes at the bandwidth, measured in this same run. Without --peer-python they are empty.
"""

import argparse
import json
import platform
import sys
import tempfile
from pathlib import Path
from statistics import median
from subprocess import PIPE, Popen

import torch

from eval import bench_cases as cases
from eval.bench_machine import bandwidth, matrix_rate
from nanokv.chat import encode_raw, read_chat
from nanokv.config import DTYPES, read_config
from nanokv.load import read_weights
from weights.get import ensure_default


class Peer:
    """eval/bench_peer.py under another python; `seconds` asks it for one run."""

    def __init__(self, python: str, folder, threads: int, ids: list):
        self.file = tempfile.NamedTemporaryFile("w", suffix=".json")  # noqa: SIM115, lives as long as the peer
        self.file.write(json.dumps(ids))
        self.file.flush()
        script = str(Path(__file__).parent / "bench_peer.py")
        self.process = Popen(
            [python, script, str(folder), str(threads), self.file.name], stdin=PIPE, stdout=PIPE, text=True
        )

    def seconds(self, **ask) -> float:
        self.process.stdin.write(json.dumps(ask) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit("the peer stopped; its message is above")
        return json.loads(answer)["seconds"]


def arguments():
    p = argparse.ArgumentParser(prog="python -m eval.bench")
    p.add_argument("--model", help="a Hugging Face folder (default: the embedded one)")
    p.add_argument("--peer-python", help="a python with transformers 5.2.0 and kvpress 0.5.5")
    p.add_argument("--dtype", nargs="+", default=["float32", "bfloat16"], choices=list(DTYPES))
    p.add_argument("--lines", nargs="+", help="only lines whose name contains one of these words")
    p.add_argument("--repeat", type=int, default=3)
    p.add_argument("--threads", type=int, default=torch.get_num_threads())
    p.add_argument("--out", help="JSON of every figure")
    return p.parse_args()


def compare(line, setup, peer, dtype: str, repeat: int) -> dict:
    """Alternate both sides `repeat` times after one warm-up each; medians, their ratio, and the line's floor."""
    ours, theirs = [], []
    for _ in range(repeat + 1):
        ours.append(line.run(setup))
        if peer and line.peer:
            theirs.append(peer.seconds(case=line.peer, n=line.n, budget=line.budget, dtype=dtype))
    ours, theirs = median(ours[1:]), median(theirs[1:]) if theirs else None
    base = line.base(setup) if line.base else None
    return {
        "line": line.name,
        "dtype": dtype,
        "ours": ours,
        "peer": theirs,
        "ratio": ours / theirs if theirs else ours / base if base else None,
        "against": "peer" if theirs else line.base_name,
        "floor": line.floor(setup) if line.floor else None,
    }


def show(row: dict):
    number = lambda x, unit="s": "-" if x is None else f"{x:.4g}{unit}"  # noqa: E731
    times_floor = row["ours"] / row["floor"] if row["floor"] else None
    cells = [row["line"], row["dtype"], number(row["ours"]), number(row["peer"]), number(row["ratio"], "x")]
    cells += [row["against"] or "-", number(row["floor"]), number(times_floor, "x")]
    print("| " + " | ".join(cells) + " |", flush=True)


@torch.inference_mode()
def main():
    args = arguments()
    torch.set_num_threads(args.threads)
    folder = args.model or ensure_default()
    cfg, chat = read_config(folder), read_chat(folder)
    ids = cases.long_text_ids(chat, encode_raw)
    peer = Peer(args.peer_python, folder, args.threads, ids) if args.peer_python else None
    machine = platform.processor() or platform.machine()
    print(f"{machine}, {args.threads} threads, torch {torch.__version__}, {Path(folder).name}")
    if not peer:
        print("peer: skipped, --peer-python was not given", file=sys.stderr)
    rows = []
    print("| line | dtype | ours | peer | ratio | against | floor | ours / floor |\n|---|---|---|---|---|---|---|---|")
    for dtype in args.dtype:
        weights = read_weights(folder, cfg, DTYPES[dtype])
        setup = cases.Setup(weights, cfg, ids, matrix_rate(DTYPES[dtype]), bandwidth(DTYPES[dtype]))
        for line in cases.LINES:
            if dtype in line.dtypes and (not args.lines or any(word in line.name for word in args.lines)):
                rows.append(compare(line, setup, peer, dtype, args.repeat))
                show(rows[-1])
    if args.out:
        Path(args.out).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
