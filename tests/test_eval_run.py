"""The runner on a tiny checkpoint: lines, sharing, both protocols, kill and resume, ranks, refusals."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from tiny_chat import write_model

from eval import run as runner
from eval.prompts import build_prompt
from eval.task import Request
from eval.tasks import find_task
from nanokv.chat import read_chat, stop_ids
from nanokv.config import read_config
from nanokv.generate import generate
from nanokv.load import read_weights
from nanokv.methods import find
from nanokv.options import build

DATA = Path(__file__).parent / "eval_samples"
WORDS = [
    "--task",
    "longbench/hotpotqa",
    "--method",
    "full",
    "snapkv",
    "random",
    "counter_causal_fast",
    "--budget",
    "128",
]
WORDS += ["--samples", "2", "--max-new-tokens", "6", "--quiet", "--data", str(DATA)]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model"), max_position_embeddings=4096)


def run(model, out, *more, words=WORDS):
    code = runner.main([*words, "--model", str(model), "--out", str(out), *map(str, more)])
    return code, lines(out)


def lines(out, name="run.rank0of1.jsonl"):
    return [json.loads(line) for line in (Path(out) / name).read_text(encoding="utf-8").splitlines()]


def timeless(found):
    return [{k: v for k, v in line.items() if k != "seconds"} for line in found]


def subprocess_run(model, out, *more, words=WORDS, **env):
    command = [sys.executable, "-m", "eval.run", *words, "--model", str(model), "--out", str(out), *map(str, more)]
    return subprocess.Popen(command, cwd=Path(__file__).parents[1], env={**os.environ, **env}, stderr=subprocess.PIPE)


@torch.inference_mode()
def test_a_line_holds_what_generate_gives(model, tmp_path):
    """The shared prefill and its forks answer as a run of their own on the same ids does."""
    code, (header, *found) = run(model, tmp_path)
    assert code == 0 and len(found) == 8 and header["settings"]["max_new_tokens"] == 6
    cfg, chat = read_config(model), read_chat(model)
    weights = read_weights(model, cfg, torch.float32)
    task, _ = find_task("longbench/hotpotqa")
    prompts = {s.id: build_prompt(chat, s) for s in task.load(Request(2, data=DATA))}
    for line in found:
        prompt = prompts[line["sample"]]
        assert line["error"] is None and line["n_prompt"] == len(prompt.ids)
        method, seed = find(line["method"]), seed_in(line["options"])
        plan, _ = build(method, line["budget"], settings=seed, n_system=prompt.n_leading)
        alone = generate(weights, cfg, prompt.ids, plan, 6, stop_ids(cfg, chat), n_ids=chat.n_ids)
        assert alone.output_ids == line["output_ids"] and alone.kv.peak_rows == line["peak_rows"]
    once = [line for line in found if line["method"] == "snapkv"]
    assert {line["kept_rows"] for line in once} == {128.0} and {line["every"] for line in once} == {None}
    assert {line["every"] for line in found if line["method"] in ("random", "counter_causal_fast")} == {32}


def seed_in(options):
    return {"seed": options["seed"]} if "seed" in options else {}


def test_random_depends_on_sample_and_seed_only(model, tmp_path):
    words = [*WORDS[:2], "--method", "random", *WORDS[WORDS.index("--budget") :]]
    _, first = run(model, tmp_path / "a", "--seeds", 0, 1, words=words)
    _, again = run(model, tmp_path / "b", "--seeds", 1, 0, words=words)
    seeds = {(line["sample"], line["seed"]): line["options"]["seed"] for line in first[1:]}
    assert len(set(seeds.values())) == 4
    assert {(line["sample"], line["seed"]): line["options"]["seed"] for line in again[1:]} == seeds


def test_ask_after_keeps_the_question_out_of_the_eviction(model, tmp_path):
    _, before = run(model, tmp_path, "--ask", "before", "after")
    by = {(line["ask"], line["method"], line["sample"]): line for line in before[1:]}
    for (ask, method, sample), line in by.items():
        if ask == "after" and method != "full":
            assert line["kept_rows"] > 128  # the question's rows came in after the eviction and all stay
        if method == "full":
            assert by["before", method, sample]["output_ids"] == by["after", method, sample]["output_ids"]


def test_a_run_that_was_killed_goes_on_with_identical_lines(model, tmp_path):
    _, whole = run(model, tmp_path / "whole")
    process = subprocess_run(model, tmp_path / "killed")
    path = tmp_path / "killed" / "run.rank0of1.jsonl"
    while process.poll() is None and not (path.exists() and path.read_bytes().count(b"\n") >= 4):
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    with open(path, "ab") as file:  # and what a kill in the middle of a write leaves
        file.write(b'{"key": "half')
    _, resumed = run(model, tmp_path / "killed")
    assert timeless(resumed) == timeless(whole)


def test_two_ranks_share_the_samples(model, tmp_path):
    _, whole = run(model, tmp_path / "whole")
    ranks = [subprocess_run(model, tmp_path / "two", RANK=str(r), WORLD_SIZE="2") for r in range(2)]
    assert [process.wait() for process in ranks] == [0, 0]
    found = [line for r in range(2) for line in lines(tmp_path / "two", f"run.rank{r}of2.jsonl")[1:]]
    by_key = lambda some: sorted(({**line, "versions": 0} for line in timeless(some)), key=lambda x: x["key"])  # noqa: E731
    assert by_key(found) == by_key(whole[1:])
    table = [sys.executable, "-m", "eval.table", str(tmp_path / "two")]
    shown = subprocess.run(table, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=True)
    assert "snapkv" in shown.stdout


def test_nothing_is_done_twice(model, tmp_path):
    _, first = run(model, tmp_path)
    _, second = run(model, tmp_path)
    assert first == second


def test_other_settings_are_refused(model, tmp_path, capsys):
    run(model, tmp_path)
    assert runner.main([*WORDS, "--model", str(model), "--out", str(tmp_path), "--max-prompt", "64"]) == 1
    assert "was made with max_prompt None, not 64" in capsys.readouterr().err


def test_a_failing_sample_is_a_line(model, tmp_path, capsys):
    code, (_, *found) = run(model, tmp_path, "--protect", "sinks:200")
    assert code == 1 and len(found) == 8 and "6 answers failed" in capsys.readouterr().err
    wrong = [line for line in found if line["error"]]
    assert len(wrong) == 6 and all("rows are protected" in line["error"] for line in wrong)
    assert all(line["score"] is None and line["answered"] is False for line in wrong)


def test_long_prompts_are_cut_and_counted(model, tmp_path):
    _, (_, *found) = run(model, tmp_path, "--max-prompt", 100)
    assert all(line["n_cut"] > 0 for line in found)


@pytest.mark.parametrize(
    "more, says",
    [
        (["--task", "ruler/vt"], "say how many tokens"),
        (["--task", "nonsense"], "unknown task 'nonsense'"),
        (["--task", "needle@2048"], "say how many with --samples"),
        (["--task", "math500", "--ask", "after", "--samples", "1"], "needs a question"),
        (["--task", "longbench/trec"], "--data"),
        (["--task", "longbench/trec", "--method", "nonsense"], "nonsense"),
        (["--recipe", "small", "--budget", "4"], "--budget stands in the recipe"),
        ([], "--task is missing"),
    ],
)
def test_what_cannot_run_is_named_in_one_line(model, tmp_path, capsys, more, says):
    words = more if "--recipe" in more or "--method" in more else [*more, "--method", "full"]
    data = ["--data", str(DATA)] if "math500" in more else []
    assert runner.main([*words, *data, "--model", str(model), "--out", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert says in said and said.count("\n") == 1
