"""Bad input: one line on stderr that names the thing, a non-zero exit, and no work done first."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_chat import byte_level, command_line, subprocess_line, write_chat, write_model

import nanokv.__main__
from nanokv import UserError
from nanokv.__main__ import main

GOOD = ("--prompt", "hello you, world", "--raw", "--method", "sliding_window", "--budget", 8, "--max-new-tokens", 3)
NO_PROMPT = GOOD[2:]
SURPRISE = ("--method", "counter_causal", "--set")

BEFORE_LOADING = {
    "no such method": (("--method", "h20"), "unknown method 'h20'; there are: full, counter_causal, "),
    "budget 0": (("--budget", 0), "--budget must be at least 1, not 0"),
    "negative budget": (("--budget", -3), "--budget must be at least 1, not -3"),
    "no number": (("--budget", "many"), "--budget: invalid int value: 'many'"),
    "every 0": (("--every", 0), "--every must be at least 1, not 0"),
    "every with once": (("--every", 2, "--once"), "--once: not allowed with argument --every"),
    "too many protected": (("--protect", "sinks:6,recent:6"), "12 rows are protected", "budget of 8", "--protect"),
    "protected share": (("--protect", "sinks:20,recent:50%"), "20 rows are protected", "budget of 8"),
    "protect what": (("--protect", "first:4"), "--protect does not know first:4; it takes sinks:N, recent:N"),
    "protect without number": (("--protect", "sinks"), "--protect does not know sinks"),
    "protect under full": (("--method", "full", "--protect", "first:4"), "--protect does not know first:4"),
    "no such option": ((*SURPRISE, "foo=1"), "no option 'foo'; there are: value, start, read, last, "),
    "no such option of full": (("--method", "full", "--set", "foo=1"), "method full has no option 'foo'"),
    "a word for a number": ((*SURPRISE, "span=long"), "option span cannot be 'long'; its default is 1"),
    "a fraction for a count": ((*SURPRISE, "span=1.5"), "option span cannot be '1.5'"),
    "a word for a switch": ((*SURPRISE, "mlp=maybe"), "option mlp cannot be 'maybe'; its default is True"),
    "no equals sign": ((*SURPRISE, "span"), "--set takes KEY=VALUE, not 'span'"),
    "no key": ((*SURPRISE, "=3"), "--set takes KEY=VALUE, not '=3'"),
    "not a file": (("--set", "mask=ahead", "--method", "counter_causal"), "'ahead' is not FILE.py:FUNCTION"),
    "no such allocation": (("--allocate", "even"), "--allocate 'even'; there are: uniform"),
    "long prompt": (("--method", "full", "--prompt", "x" * 200), "200 tokens", "takes 160", "--method"),
    "empty prompt": (("--prompt", ""), "the prompt is empty (--prompt)"),
    "system in a raw prompt": (("--system", "Be kind."), "--raw has no system turn", "--system"),
    "protected system in a raw prompt": (("--protect", "system"), "--raw has no system turn", "--protect system"),
    "no such dtype": (("--dtype", "int4"), "unknown --dtype 'int4'; there are: auto, float32, bfloat16, float16"),
    "no such device": (("--device", "gpu"), "no device 'gpu' here; there is: cpu"),
    "no such folder for a trace": (("--trace", "/no/such/t.json"), "cannot write /no/such/t.json", "folder /no/such"),
    "no such folder for a page": (("--page", "/no/such/p.html"), "cannot write /no/such/p.html"),
    "a folder as a trace": (("--trace", "/"), "cannot write /: it is a folder"),
    "temperature": (("--temperature", -1), "temperature -1.0"),
    "top-p": (("--top-p", 2), "top_p 2.0"),
    "seed": (("--seed", 10**30), "--seed must fit into 64 bits"),
    "tokens": (("--max-new-tokens", -1), "--max-new-tokens must be at least 0, not -1"),
    "no such word": (("--verbose",), "unrecognized arguments: --verbose"),
    "no such model": (("--model", "/no/such/model"), "no such model folder: /no/such/model"),
    "not UTF-8": (("--prompt", "a\udcff"), "--prompt is not UTF-8"),
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def folder(model, tmp_path):
    return Path(shutil.copytree(model, tmp_path / "model"))


@pytest.fixture
def fails(capsys):
    """fails(folder, words) -> the one line on stderr, of a run that must fail and say nothing else."""

    def fail(folder, *words):
        code, out, err = command_line(capsys, folder, *words)
        assert code != 0 and out == "", (code, out)
        assert err.startswith("nanokv: error: ") and err.count("\n") == 1 and err.endswith("\n"), err
        return err

    return fail


@pytest.mark.parametrize("case", BEFORE_LOADING)
def test_it_is_named_before_the_weights_are_loaded(fails, model, monkeypatch, case):
    words, *named = BEFORE_LOADING[case]
    monkeypatch.setattr(nanokv.__main__, "read_weights", None)
    line = fails(model, *GOOD, *words)
    assert all(name in line for name in named), line


def test_a_missing_budget_is_named(fails, model):
    assert "method h2o needs --budget" in fails(model, "--prompt", "x", "--raw", "--method", "h2o")


def test_a_missing_method_is_named(fails, model):
    assert "--method NAME or --score FILE.py:FN is needed" in fails(model, "--prompt", "x", "--raw")


def test_a_missing_prompt_is_named(fails, model):
    assert "--prompt --prompt-file is required" in fails(model, "--method", "full")


@pytest.mark.parametrize(
    ("content", "named"),
    [(None, "cannot read {}: No such file"), (b"ab\xff", "{} is not UTF-8: byte 2 is 0xff"), (b"", "is empty ({})")],
)
def test_a_bad_prompt_file_is_named(fails, model, tmp_path, content, named):
    path = tmp_path / "p.txt"
    if content is not None:
        path.write_bytes(content)
    assert named.format(path) in fails(model, "--prompt-file", path, *NO_PROMPT)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_missing_file_of_the_model_is_named(fails, folder, name):
    (folder / name).unlink()
    assert f"missing file: {folder / name}" in fails(folder, *GOOD)


def test_a_truncated_weight_file_is_named(fails, folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    assert f"{path} is truncated" in fails(folder, *GOOD)


def test_an_unknown_model_type_is_named_with_the_known_ones(fails, tmp_path):
    folder = write_model(tmp_path)
    text = (folder / "config.json").read_text().replace('"llama"', '"mamba"')
    (folder / "config.json").write_text(text)
    line = fails(folder, *GOOD)
    assert "unknown model_type 'mamba'" in line and "llama" in line and "qwen3" in line


def test_a_tokenizer_that_knows_more_than_the_checkpoint_is_refused(fails, tmp_path):
    folder = write_model(tmp_path, vocab_size=100)
    assert "token ids from 32 to 121 in the prompt; the checkpoint has 100" in fails(folder, *GOOD)


def test_a_model_without_a_template_names_the_way_out(fails, folder):
    write_chat(folder, byte_level(), None)
    assert "no chat template: use --raw" in fails(folder, "--prompt", "hi", "--method", "full")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("option", ["--trace", "--page"])
def test_a_full_disk_is_named_with_the_file(model, capsys, option):
    code, _, err = command_line(capsys, model, *GOOD, "--quiet", option, "/dev/full")
    assert (code, err) == (1, "nanokv: error: cannot write /dev/full: No space left on device\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_an_answer_that_cannot_be_printed_is_one_line(model):
    words = [sys.executable, "-m", "nanokv", "generate", "--model", str(model), *map(str, GOOD), "--quiet"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(words, cwd=Path(__file__).parents[1], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr == "nanokv: error: cannot write the answer: No space left on device\n"


def test_an_answer_that_the_terminal_cannot_show_is_one_line(model):
    """The sixth token behind this prompt is half a character, shown as U+FFFD."""
    words = ("--prompt", "hello hello", "--raw", "--method", "full", "--max-new-tokens", 6, "--quiet")
    done = subprocess_line(model, *words, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert r"cannot show '\ufffd' of the answer, in ascii" in done.stderr


def test_an_unknown_command_is_named(capsys):
    assert main(["generat"]) == 1
    err = capsys.readouterr().err
    assert "'generat'" in err and err.count("\n") == 1


def test_debug_lets_the_traceback_through(model):
    words = [str(word) for word in (*GOOD, "--budget", 0)]
    with pytest.raises(UserError, match="--budget"):
        main(["--debug", "generate", "--model", str(model), *words])
    with pytest.raises(UserError, match="--budget"):
        main(["generate", "--model", str(model), *words, "--debug"])


def test_a_process_ends_with_one_line_and_without_a_traceback():
    done = subprocess_line("/no/such/model", *GOOD)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "nanokv: error: no such model folder: /no/such/model\n"
