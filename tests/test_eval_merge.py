"""Merging result files: ranks become one, strangers are refused or kept apart, kills are harmless."""

import json

import pytest
from eval_lines import FIDELITY, SETTINGS, failed, line, write

from eval.lines import read_file
from eval.merge import read_runs, refresh_of, split_task
from eval.record import Record, key_of
from nanokv import UserError


def refusal(*paths) -> str:
    with pytest.raises(UserError) as e:
        read_runs(paths)
    assert "\n" not in str(e.value)
    return str(e.value)


def samples(runs) -> list:
    return [(s["sample"], s["score"]) for s in runs.samples]


def test_the_files_of_two_ranks_become_one(tmp_path):
    write(tmp_path / "run.rank0of2.jsonl", [line(sample=0, score=1.0), line(sample=2, score=0.5)])
    write(tmp_path / "run.rank1of2.jsonl", [line(sample=1, score=0.0)])
    (runs,) = read_runs([tmp_path])
    assert samples(runs) == [("0", 1.0), ("2", 0.5), ("1", 0.0)] and runs.settings == SETTINGS
    assert runs.about == "weights/SmolLM2-135M-Instruct, float32, cpu"


def test_what_the_runner_s_record_writes_can_be_read(tmp_path):
    for rank in (0, 1):
        record = Record(tmp_path, "run", SETTINGS, rank, 2)
        made = line(sample=rank)
        record.write({**made, "key": key_of(made)})
        record.close()
    (runs,) = read_runs([tmp_path])
    assert samples(runs) == [("0", 1.0), ("1", 1.0)]


def test_ranks_with_other_settings_are_refused_by_file_and_setting(tmp_path):
    write(tmp_path / "run.rank0of2.jsonl", [line(sample=0)])
    write(tmp_path / "run.rank1of2.jsonl", [line(sample=1)], {**SETTINGS, "dtype": "bfloat16", "raw": True})
    says = f"{tmp_path / 'run.rank1of2.jsonl'} was run with other settings than {tmp_path / 'run.rank0of2.jsonl'}: "
    assert refusal(tmp_path) == says + "dtype 'bfloat16' and not 'float32', raw True and not None"


def test_runs_of_other_names_stay_apart_by_their_settings(tmp_path):
    """As `eval.run --recipe` leaves them: a file for each of the settings that its runs have."""
    short = {**SETTINGS, "max_prompt": 1024, "fingerprint": "ab", "fidelity": True}
    long = {**SETTINGS, "max_prompt": None, "fingerprint": "ab", "fidelity": True}
    write(tmp_path / "smoke-2.rank0of1.jsonl", [line(score=0.0)], short)
    write(tmp_path / "smoke.rank0of1.jsonl", [line(score=1.0)], long)
    write(tmp_path / "small.rank0of1.jsonl", [line(sample=1, score=0.5)], long)
    one, other = read_runs([tmp_path])
    assert samples(one) == [("1", 0.5), ("0", 1.0)] and samples(other) == [("0", 0.0)]
    assert (one.further, other.further) == ("max_prompt None", "max_prompt 1024")


def test_settings_are_named_where_set_or_where_runs_differ(tmp_path):
    def further(*each):
        for i, settings in enumerate(each):
            write(tmp_path / f"{len(each)}/run{i}.rank0of1.jsonl", [line()], {**SETTINGS, **settings})
        return [runs.further for runs in read_runs([tmp_path / str(len(each))])]

    quiet = {"fingerprint": "ab", "fidelity": True, "raw": False, "protect": None}
    assert further({**quiet, "max_new_tokens": 32}) == ["max_new_tokens 32"]
    assert further(quiet, {**quiet, "fingerprint": "cd"}) == ["fingerprint ab", "fingerprint cd"]
    assert further(SETTINGS, {"raw": None}, {"raw": True}) == ["raw None", "raw True"]


def test_one_line_twice_counts_once_whatever_its_seconds(tmp_path):
    near = {**FIDELITY, "kl": 0.2500001}
    write(tmp_path / "a.rank0of1.jsonl", [line(), line(), failed(sample=1)])
    again = line(seconds={"prefill": 9.0}, versions={"torch": "9"}, fidelity=near)
    write(tmp_path / "b.rank0of1.jsonl", [again, failed(sample=1)])
    (runs,) = read_runs([tmp_path, tmp_path / "a.rank0of1.jsonl"])
    assert samples(runs) == [("0", 1.0), ("1", None)]


OTHER = [
    {"score": 0.0},
    {"answered": False},
    {"kept_rows": 63.0},
    {"fidelity": None},
    {"fidelity": {**FIDELITY, "kl": 0.3}},
]


@pytest.mark.parametrize("other", OTHER, ids=str)
def test_lines_that_contradict_each_other_are_refused_by_file_and_line(tmp_path, other):
    write(tmp_path / "a.rank0of1.jsonl", [line()])
    path = write(tmp_path / "b.rank0of1.jsonl", [line(sample=3), line(**other)])
    says = f"{path}:3 differs from an earlier line with the same key "
    assert refusal(tmp_path) == says + '["ruler/vt@1024", "0", "snapkv", 64, null, "before", 0]'


def test_a_failure_and_an_answer_to_one_key_contradict_each_other(tmp_path):
    path = write(tmp_path / "a.rank0of1.jsonl", [line(), failed()])
    assert refusal(tmp_path).startswith(f"{path}:3 differs from an earlier line")


def test_methods_that_saw_other_prompts_of_one_sample_are_refused(tmp_path):
    """The data files were others. A prompt that was never built, or another seed's, says nothing."""
    fine = [line(), failed(label="h2o", prompt_sha=None), line(label="h2o", seed=1, prompt_sha="cd")]
    path = write(tmp_path / "a.rank0of1.jsonl", fine)
    assert len(read_runs([path])[0].samples) == 3
    write(path, [*fine, line(label="tova", prompt_sha="cd")])
    assert refusal(path) == f"{path}:5 has another prompt than an earlier line of the same sample"


def test_a_half_written_last_line_is_left_out_with_a_note(tmp_path, capsys):
    """Cut in the middle of a character, as a kill may."""
    path = write(tmp_path / "a.rank0of1.jsonl", [line(), line(sample=1, answer="né")])
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.index("é".encode()) + 1])
    (runs,) = read_runs([path])
    assert samples(runs) == [("0", 1.0)]
    assert capsys.readouterr().err == f"{path}: the last line is unfinished, so it is left out\n"
    path.write_bytes(whole)
    assert len(read_runs([path])[0].samples) == 2 and capsys.readouterr().err == ""


def test_a_rank_killed_at_its_first_line_does_not_spoil_the_others(tmp_path):
    (tmp_path / "run.rank0of3.jsonl").write_text("")
    (tmp_path / "run.rank1of3.jsonl").write_text('{"settings": {"mod')
    write(tmp_path / "run.rank2of3.jsonl", [line()])
    assert samples(read_runs([tmp_path])[0]) == [("0", 1.0)]


@pytest.mark.parametrize("broken", [b'{"key": "a", "ta', b"[1]", b"", b'{"key": "n\xc3"}', b"\x00\x00"])
def test_a_broken_line_in_the_middle_is_refused_by_file_and_line(tmp_path, broken):
    path = write(tmp_path / "a.rank0of1.jsonl", [line(), line(sample=1)])
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([*lines[:2], broken, *lines[2:]]))
    assert refusal(path) == f"{path}:3 is not a JSON object"


WRONG = [
    ({"ask": "during"}, "ask cannot be 'during'"),
    ({"score": None}, "score cannot be None"),
    ({"score": "1"}, "score cannot be '1'"),
    ({"score": float("nan")}, "score cannot be nan"),
    ({"sample": None}, "sample cannot be None"),
    ({"budget": "64"}, "budget cannot be '64'"),
    ({"fidelity": {"kl": 1.0}}, "fidelity cannot be {'kl': 1.0}"),
    ({"fidelity": [1]}, "fidelity cannot be [1]"),
    ({"seconds": {"prefill": None}}, "seconds cannot be {'prefill': None}"),
    ({"details": "x"}, "details cannot be 'x'"),
]


@pytest.mark.parametrize(("change", "says"), WRONG, ids=[says for _, says in WRONG])
def test_a_field_that_makes_no_sense_is_refused(tmp_path, change, says):
    path = write(tmp_path / "a.rank0of1.jsonl", [line(), {**line(sample=1), **change}])
    assert refusal(path) == f"{path}:3: {says}"


def test_lines_of_something_else_are_refused(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(line()) + "\n")
    assert refusal(tmp_path) == f"{path} does not begin with a line of settings"
    write(path, [{name: value for name, value in line().items() if name not in ("seed", "error")}])
    assert refusal(tmp_path) == f"{path}:2 lacks seed, error"


def test_nothing_to_read_is_said(tmp_path):
    assert refusal(tmp_path) == f"no .jsonl file in {tmp_path}"
    assert refusal(tmp_path / "no.jsonl") == f"missing file: {tmp_path / 'no.jsonl'}"
    write(tmp_path / "a.rank0of1.jsonl", [])
    assert refusal(tmp_path) == f"no sample yet in {tmp_path}"
    assert read_file(tmp_path / "a.rank0of1.jsonl").settings == SETTINGS


def test_tasks_and_schedules_are_named():
    assert split_task("ruler/vt@4096") == ("ruler", "vt", 4096) and split_task("math500") == (None, "math500", None)
    assert split_task("needle@1024") == (None, "needle", 1024)
    when = {(None, None): "-", (512, None): "once", (512, 256): "J/2", (512, 128): "J/4", (512, 64): "64"}
    when |= {(1, 1): "J/4", (512, 512): "512"}
    assert {key: refresh_of({"budget": key[0], "every": key[1]}) for key in when} == when
