"""The trace: one JSON object whose keys and types other tools rely on."""

import json
import math

import pytest
import torch
from tiny_chat import command_line, write_model

from nanokv.config import read_config
from nanokv.evict import Refresh
from nanokv.load import read_weights
from nanokv.trace import trace_head, trace_refresh

PROMPT = "hello you, world"  # 16 bytes, 16 tokens
WORDS = ("--prompt", PROMPT, "--raw", "--max-new-tokens", 6, "--quiet")
KEYS = {
    "model": str,
    "method": str,
    "options": dict,
    "budget": int,
    "dtype": str,
    "prompt_ids": list,
    "output_ids": list,
    "text": str,
    "stop": str,
    "n_seen": int,
    "kept_rows": int,
    "bytes_held": int,
    "peak_rows": int,
    "refreshes": list,
    "seconds": dict,
}
PLANS = {
    "full": ("--method", "full"),
    "shared": ("--method", "counter_causal", "--budget", 8, "--every", 4),
    "nested": ("--method", "h2o", "--budget", 8, "--every", 4),
    "once": ("--method", "streaming_llm", "--budget", 8, "--once"),
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def run(model, capsys, tmp_path):
    """run(words) -> (stdout, trace) of a run that must succeed."""

    def succeed(*words, folder=model):
        code, out, err = command_line(capsys, folder, *WORDS, *words, "--trace", tmp_path / "t.json")
        assert code == 0, err
        return out, json.loads((tmp_path / "t.json").read_text(encoding="utf-8"), parse_constant=pytest.fail)

    return succeed


@pytest.fixture(params=PLANS)
def trace(request, run):
    return run(*PLANS[request.param])[1]


def whole_numbers(numbers) -> bool:
    return all(type(i) is int for i in numbers)


def heads_of(refresh: dict) -> list:
    """(positions, scores, kept) of each head, whether shared or nested as [layer][kv head]."""
    lists = [refresh[key] for key in ("positions", "scores", "kept")]
    if refresh["shared"]:
        return [lists]
    assert all(len(nested) == 2 and all(len(heads) == 2 for heads in nested) for nested in lists)
    return [[nested[layer][head] for nested in lists] for layer in range(2) for head in range(2)]


def test_every_key_is_there_with_its_type(trace):
    for key, kind in KEYS.items():
        assert type(trace[key]) is kind, key
    assert trace["every"] is None or type(trace["every"]) is int
    assert whole_numbers(trace["prompt_ids"]) and whole_numbers(trace["output_ids"])
    assert trace["stop"] in ("eos", "max_new_tokens", "context")


def test_the_seconds_of_every_phase_are_there(trace):
    assert set(trace["seconds"]) == {"load", "prefill", "score", "decode"}
    assert all(type(s) in (int, float) and s >= 0 for s in trace["seconds"].values())


def test_each_refresh_has_its_keys_and_types(trace):
    for refresh in trace["refreshes"]:
        assert type(refresh["n_seen"]) is int and type(refresh["shared"]) is bool
        for positions, scores, kept in heads_of(refresh):
            assert whole_numbers(positions) and whole_numbers(kept)
            assert all(s is None or (type(s) is float and math.isfinite(s)) for s in scores)


def test_scores_align_with_positions_and_what_is_kept_was_held(trace):
    for refresh in trace["refreshes"]:
        for positions, scores, kept in heads_of(refresh):
            assert len(scores) == len(positions) and len(kept) == 8
            assert positions == sorted(set(positions)) and positions[-1] == refresh["n_seen"] - 1
            assert kept == sorted(kept) and set(kept) <= set(positions)


def test_what_a_refresh_holds_is_what_the_last_one_kept_and_what_came_since(trace):
    before, seen = None, 0
    for refresh in trace["refreshes"]:
        heads = heads_of(refresh)
        kept_before = before or [[]] * len(heads)
        for (positions, _, _), kept in zip(heads, kept_before):
            assert positions == kept + list(range(seen, refresh["n_seen"]))
        before, seen = [kept for _, _, kept in heads], refresh["n_seen"]


def test_the_numbers_of_a_shared_run_are_those_of_its_schedule(run):
    _, trace = run(*PLANS["shared"])
    assert [r["n_seen"] for r in trace["refreshes"]] == [12, 16, 20] and trace["refreshes"][0]["shared"]
    assert (trace["budget"], trace["every"], trace["n_seen"], trace["peak_rows"]) == (8, 4, 21, 12)
    assert trace["kept_rows"] == 8 + 1  # the last refresh at 20, and one token since; the answer's last is never read
    assert trace["bytes_held"] == 2 * 2 * 2 * 9 * 8 * 4  # k and v, layers, kv heads, rows, head width, float32
    assert trace["method"] == "counter_causal" and trace["dtype"] == "float32"


def test_head_level_runs_nest_by_layer_and_kv_head(run):
    _, trace = run(*PLANS["nested"])
    assert trace["refreshes"] and not any(r["shared"] for r in trace["refreshes"])


def test_a_run_without_eviction_has_budget_0_no_every_and_no_refresh(run):
    _, trace = run(*PLANS["full"])
    assert (trace["budget"], trace["every"], trace["refreshes"]) == (0, None, [])
    assert trace["kept_rows"] == trace["peak_rows"] == trace["n_seen"] == 21


def test_an_infinite_score_is_null(run):
    """Nothing comes after the newest token: its surprise is infinite, and no other's."""
    _, trace = run(*PLANS["shared"])
    for refresh in trace["refreshes"]:
        assert refresh["scores"][-1] is None and None not in refresh["scores"][:-1]


def test_scores_are_the_float32_that_were_computed():
    pos, keep = torch.tensor([0, 2, -1]), torch.tensor([True, False, False])
    scores = torch.tensor([0.1, -torch.inf, 5.0])
    assert trace_head(pos, scores, keep) == ([0, 2], [0.100000001, None], [0])


def test_empty_slots_of_a_shorter_head_are_left_out():
    pos = torch.tensor([[[0, 1, 2], [0, 2, -1]]])
    keep = torch.tensor([[[True, False, True], [False, True, False]]])
    done = trace_refresh(Refresh(3, False, [pos], [torch.arange(6.0).reshape(1, 2, 3)], [keep]))
    assert done["positions"] == [[[0, 1, 2], [0, 2]]]
    assert (done["scores"], done["kept"]) == ([[[0.0, 1.0, 2.0], [3.0, 4.0]]], [[[0, 2], [2]]])


def test_the_prompts_ids_and_the_answers_text_are_the_runs_own(run):
    out, trace = run(*PLANS["shared"])
    assert trace["prompt_ids"] == list(PROMPT.encode())
    assert out == trace["text"] + "\n" and len(trace["output_ids"]) == 6


def test_the_stop_token_is_not_among_the_output_ids(run, tmp_path):
    """<|end|>, 259, is what the model says third behind this prompt."""
    _, trace = run("--method", "full", "--prompt", "run you", folder=write_model(tmp_path / "m", eos=259))
    assert (trace["stop"], len(trace["output_ids"])) == ("eos", 2) and 259 not in trace["output_ids"]
    _, longer = run("--method", "full", "--prompt", "run you", "--ignore-eos")
    assert longer["output_ids"][:3] == [*trace["output_ids"], 259]


def test_the_other_stop_reasons_are_the_limit_and_the_models_positions(run):
    assert run("--method", "full")[1]["stop"] == "max_new_tokens"
    _, trace = run("--method", "full", "--prompt", "x" * 158)
    assert (trace["stop"], trace["n_seen"], len(trace["output_ids"])) == ("context", 160, 3)


def test_bytes_are_counted_in_the_runs_dtype(run, model):
    _, trace = run(*PLANS["shared"], "--dtype", "float16")
    weights = read_weights(model, read_config(model), torch.float16)
    assert trace["bytes_held"] == 2 * 2 * 2 * 9 * 8 * weights.embed.element_size()


def test_how_the_run_was_made_is_in_its_options(run):
    _, trace = run(*PLANS["shared"], "--temperature", 0.5, "--top-p", 0.9, "--seed", 3, "--set", "span=5")
    wanted = {"--temperature": 0.5, "--top-p": 0.9, "--seed": 3, "--mask": None, "span": 5, "start": "token"}
    assert wanted.items() <= trace["options"].items()
