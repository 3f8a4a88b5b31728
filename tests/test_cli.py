"""The command line: what it prints where, and that its options do what they say."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_chat import END, command_line, subprocess_line, write_model

from nanokv.__main__ import main
from nanokv.buffer import new_buffer
from nanokv.config import read_config
from nanokv.load import read_weights
from nanokv.methods import METHODS
from nanokv.options import options_of
from nanokv.passes import causal_pass, unembed

FULL = ("--prompt", "hello hello", "--raw", "--method", "full", "--max-new-tokens", 6)
WINDOW = ("--prompt", "hello you, world", "--raw", "--method", "sliding_window", "--budget", 8, "--max-new-tokens", 6)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def run(model, capsys, tmp_path):
    """run(words) -> (stdout, stderr, trace) of a run that must succeed."""

    def succeed(*words, folder=model):
        code, out, err = command_line(capsys, folder, *words, "--trace", tmp_path / "t.json")
        assert code == 0, err
        return out, err, json.loads((tmp_path / "t.json").read_text(encoding="utf-8"))

    return succeed


def greedy(folder, text: str, n: int, dtype=torch.float32) -> list:
    """n greedy tokens behind the bytes of text, the whole of it read anew for each; the tokenizer has 260 ids."""
    cfg = read_config(folder)
    weights, ids = read_weights(folder, cfg, dtype), list(text.encode())
    for _ in range(n):
        x = causal_pass(weights, cfg, new_buffer(cfg, 1, dtype), torch.tensor([ids]))
        ids.append(int(unembed(weights, x)[0, -1, :260].argmax()))
    return ids[len(text.encode()) :]


def test_the_answer_is_the_greedy_one(run, model):
    assert run(*FULL)[2]["output_ids"] == greedy(model, "hello hello", 6)


def test_quiet_leaves_the_answer_on_stdout_and_nothing_on_stderr(run):
    out, err, trace = run(*FULL, "--quiet")
    assert (out, err) == (trace["text"] + "\n", "")


def test_header_and_closing_line_go_to_stderr(run):
    out, err, trace = run(*WINDOW)
    assert out == trace["text"] + "\n"
    assert "sliding_window, budget 8, every 2" in err and "float32 on cpu" in err and "16 prompt tokens" in err
    assert f"{trace['kept_rows']} kept, {len(trace['refreshes'])} refreshes, stop: max_new_tokens" in err


def test_a_prompt_file_is_read_as_it_is(run, tmp_path):
    (tmp_path / "p.txt").write_bytes("one\r\n zwei\tdreißig\n".encode())
    trace = run("--prompt-file", tmp_path / "p.txt", *FULL[2:])[2]
    assert bytes(trace["prompt_ids"]) == "one\r\n zwei\tdreißig\n".encode()


def test_without_raw_the_chat_template_wraps_the_prompt(run):
    prompt = run("--prompt", "hi", "--method", "full", "--max-new-tokens", 1)[2]["prompt_ids"]
    bytes_only = bytes(i for i in prompt if i < 256)
    assert bytes_only == b"system\nBe kind.\nuser\nhi\nassistant\n" and prompt[0] == 258


def test_system_replaces_the_templates_default(run):
    words = ("--prompt", "hi", "--system", "Be rude.", "--method", "full", "--max-new-tokens", 1)
    prompt = run(*words)[2]["prompt_ids"]
    assert bytes(i for i in prompt if i < 256) == b"system\nBe rude.\nuser\nhi\nassistant\n"


def test_protect_system_keeps_the_ids_before_the_users_text(run):
    words = ("--prompt", "hi you, how are you?", "--method", "sliding_window", "--budget", 40, "--every", 4)
    for refresh in run(*words, "--protect", "system", "--max-new-tokens", 20)[2]["refreshes"]:
        assert refresh["kept"][:24] == list(range(24))  # start "system\nBe kind." end "\n" start "user\n"


def test_a_stop_token_of_the_config_ends_the_answer(run, tmp_path):
    first = greedy(write_model(tmp_path / "m"), "hello hello", 3)
    folder = write_model(tmp_path / "stops", eos=[999, first[2]])
    _, _, trace = run(*FULL, folder=folder)
    assert (trace["output_ids"], trace["stop"]) == (first[:2], "eos")


def test_the_templates_end_of_turn_ends_the_answer_too(run, model):
    """Behind this prompt the model's third token is the one that closes a turn in the template; no config lists it."""
    first = greedy(model, "run you", 3)
    assert first[2] == END
    _, _, trace = run(*FULL, "--prompt", "run you")
    assert (trace["output_ids"], trace["stop"]) == (first[:2], "eos")


def test_ids_that_only_the_padded_vocabulary_has_are_never_said(run, tmp_path):
    folder = write_model(tmp_path / "padded")
    tensors = load_file(folder / "model.safetensors")
    tensors["lm_head.weight"][261], tensors["lm_head.weight"][262] = 9.0, -9.0  # one of them wins by far
    save_file(tensors, folder / "model.safetensors")
    assert max(run(*FULL, folder=folder)[2]["output_ids"]) < 260


def test_ignore_eos_runs_to_the_limit(run, tmp_path):
    first = greedy(write_model(tmp_path / "m"), "hello hello", 6)
    folder = write_model(tmp_path / "stops", eos=first[2])
    _, _, trace = run(*FULL, "--ignore-eos", folder=folder)
    assert (trace["output_ids"], trace["stop"]) == (first, "max_new_tokens")


def test_max_new_tokens_0_answers_nothing(run):
    out, _, trace = run(*FULL, "--max-new-tokens", 0)
    assert (out, trace["output_ids"]) == ("\n", [])


def test_the_dtype_asked_for_is_the_one_that_runs(run, model):
    _, err, trace = run(*FULL, "--dtype", "bfloat16")
    assert trace["dtype"] == "bfloat16" and "bfloat16 on cpu" in err
    assert trace["output_ids"] == greedy(model, "hello hello", 6, torch.bfloat16)


def test_the_seed_decides_what_is_sampled(run):
    one, same, other = (run(*FULL, "--temperature", 5, "--seed", seed)[2]["output_ids"] for seed in (1, 1, 2))
    assert one == same != other


def test_once_refreshes_once_and_every_as_often_as_it_says(run):
    assert [r["n_seen"] for r in run(*WINDOW, "--once")[2]["refreshes"]] == [16]
    assert [r["n_seen"] for r in run(*WINDOW, "--every", 5)[2]["refreshes"]] == [10, 15, 20]


def test_protected_rows_may_come_on_top_of_the_budget(run):
    words = ("--protect", "sinks:3", "--once", "--budget-excludes-protected")
    assert run(*WINDOW, *words)[2]["refreshes"][0]["kept"] == [0, 1, 2, *range(8, 16)]


def test_options_of_the_method_are_set_and_recorded(run):
    words = (*WINDOW, "--method", "counter_causal", "--set", "start=blind", "--set", "span=9")
    options = run(*words)[2]["options"]
    assert (options["start"], options["span"], options["value"]) == ("blind", 9, "logit")


def test_the_page_has_the_answer_in_it(run, tmp_path):
    run(*WINDOW, "--page", tmp_path / "out.html")
    assert "</html>" in (tmp_path / "out.html").read_text(encoding="utf-8")


def test_eviction_past_the_models_positions_warns_and_goes_on(run):
    _, err, trace = run(*WINDOW, "--prompt", "x" * 200)
    assert "positions go past the 160" in err and trace["n_seen"] == 205


def test_rows_over_the_budget_without_a_refresh_are_complained_about(run):
    assert "over the budget of 8, and no refresh was due" in run(*WINDOW, "--every", 100)[1]


def test_the_table_names_every_method_with_its_paper_and_options(capsys):
    assert main(["methods"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert len(out) == len(METHODS) + 1
    for m, line in zip(METHODS, out[1:]):
        assert line.startswith(m.name + " ") and m.paper in line and m.keeps in line
        assert all(f"{option}=" in line for option in options_of(m))


def test_smollm2_answers_a_question(smollm2, capsys):
    words = ("--prompt", "What is the capital of France?", "--method", "full", "--max-new-tokens", 12, "--quiet")
    code, out, err = command_line(capsys, smollm2, *words)
    assert (code, err) == (0, "") and "Paris" in out


def test_it_runs_as_a_process_of_its_own(model):
    done = subprocess_line(model, *FULL, "--quiet")
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.endswith("\n")
