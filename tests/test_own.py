"""`--score FILE.py:FN` and `--mask FILE.py:FN` run a user's own functions, and say which one went wrong."""

import json
from pathlib import Path

import pytest
from tiny_chat import command_line, subprocess_line, write_model

from nanokv import UserError
from nanokv.__main__ import main

GOOD = ("--prompt", "hello you, world", "--raw", "--budget", 8, "--every", 4, "--max-new-tokens", 8, "--quiet")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def own():
    return lambda name: f"{Path(__file__).parent / 'own_functions.py'}:{name}"


@pytest.fixture
def run(model, capsys, tmp_path):
    """run(words) -> the trace of a run that must succeed."""

    def succeed(*words):
        code, _, err = command_line(capsys, model, *GOOD, *words, "--trace", tmp_path / "t.json")
        assert (code, err) == (0, "")
        return json.loads((tmp_path / "t.json").read_text())

    return succeed


@pytest.fixture
def fails(model, capsys):
    """fails(words) -> the one line on stderr of a run that must fail."""

    def fail(*words):
        code, out, err = command_line(capsys, model, *GOOD, *words)
        assert code == 1 and out == "" and err.startswith("nanokv: error: ") and err.count("\n") == 1, err
        return err

    return fail


def same_run(one: dict, other: dict) -> bool:
    return all(one[key] == other[key] for key in ("output_ids", "refreshes"))


def test_a_score_equal_to_the_built_in_one_gives_the_same_run(run, own):
    built_in = run("--method", "counter_causal")
    assert built_in["refreshes"] and same_run(built_in, run("--method", "counter_causal", "--score", own("same")))
    assert same_run(built_in, run("--score", own("same")))  # counter_causal protects nothing in a raw prompt


def test_another_score_keeps_what_it_says(run, own):
    kept = [refresh["kept"] for refresh in run("--score", own("newest"))["refreshes"]]
    assert kept[:2] == [[4, 5, 6, 7, 8, 9, 10, 11], [8, 9, 10, 11, 12, 13, 14, 15]]


def test_a_scores_keyword_arguments_are_options(run, own):
    trace = run("--score", own("newest"), "--set", "sign=-1")
    assert trace["refreshes"][0]["kept"] == [0, 1, 2, 3, 4, 5, 6, 7] and trace["options"]["sign"] == -1


def test_a_score_may_differ_by_head_and_read_the_newest_queries(run, own):
    refresh = run("--score", own("per_head"))["refreshes"][0]
    assert refresh["shared"] is False and refresh["kept"] == [[[4, 5, 6, 7, 8, 9, 10, 11]] * 2] * 2


def test_an_own_score_by_head_may_be_given_its_rows_by_any_rule(run, own):
    words = ("--score", own("per_head"), "--allocate", "ada", "--method", "sliding_window")
    assert run(*words)["options"]["allocate"] == "ada"


def test_a_trace_names_the_users_functions(run, own):
    trace = run("--score", own("newest"), "--mask", own("causal"))
    assert (trace["method"], trace["options"]["--mask"]) == (own("newest"), own("causal"))


def test_a_mask_equal_to_the_causal_one_gives_the_same_run(run, own):
    assert same_run(run("--method", "h2o"), run("--method", "h2o", "--mask", own("causal")))


def test_another_mask_gives_another_answer(run, own):
    assert run("--method", "full")["output_ids"] != run("--method", "full", "--mask", own("only_itself"))["output_ids"]


def test_a_mask_for_the_second_pass_equal_to_the_built_in_one_gives_the_same_run(run, own):
    words = ("--method", "counter_causal")
    trace = run(*words, "--set", "mask=" + own("ahead"))
    assert same_run(run(*words), trace) and trace["options"]["mask"] == own("ahead")


def test_another_mask_for_the_second_pass_gives_other_scores(run, own):
    words = ("--method", "counter_causal")
    first = run(*words, "--set", "mask=" + own("only_itself"))["refreshes"][0]
    assert first["scores"] != run(*words)["refreshes"][0]["scores"]


@pytest.mark.parametrize("option", ["--score", "--mask"])
def test_a_missing_file_or_function_is_named(fails, own, option):
    method = ("--method", "counter_causal", option)
    assert "'/no/such.py:f' is not FILE.py:FUNCTION" in fails(*method, "/no/such.py:f")
    assert "is not FILE.py:FUNCTION" in fails(*method, "own.py")
    assert f"{own('')[:-1]} has no function 'absent'" in fails(*method, own("absent"))


def test_a_file_that_does_not_load_is_named(fails, tmp_path):
    (tmp_path / "broken.py").write_text("import not_a_module_of_anybody")
    line = fails("--score", f"{tmp_path / 'broken.py'}:f")
    assert f"{tmp_path / 'broken.py'} raised ModuleNotFoundError" in line


@pytest.mark.parametrize("option", ["--score", "--mask"])
def test_a_function_that_raises_is_named_in_one_line(fails, own, option):
    line = fails("--method", "sliding_window", option, own("raises"))
    assert f"{own('raises')} raised ZeroDivisionError: three lines long (--debug" in line


def test_debug_shows_where_a_function_raised(model, own):
    with pytest.raises(UserError) as error:
        main(["--debug", "generate", "--model", str(model), *map(str, GOOD), "--score", own("raises")])
    assert isinstance(error.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("short", "the score of layer 0 is [1, 1, 3], not [1, 1, 12]"),
        ("nan", "the score of layer 0 has NaN"),
        ("nothing", "the score returned a NoneType"),
        ("one_layer", "the score returned 1 tensors for 2 layers"),
    ],
)
def test_what_is_wrong_with_a_score_is_said(fails, own, name, said):
    assert said in fails("--score", own(name))


@pytest.mark.parametrize(("name", "kind"), [("not_bool", "torch.float32 [1, 1, 4, 4]"), ("nothing", "NoneType")])
def test_what_is_wrong_with_a_mask_is_said(fails, own, name, kind):
    assert f"{own(name)} returned {kind}, not a bool mask" in fails("--method", "sliding_window", "--mask", own(name))


def test_an_interrupt_is_one_line_and_exit_130(model, own, capsys):
    code, out, err = command_line(capsys, model, *GOOD, "--score", own("interrupted"))
    assert (code, out, err) == (130, "", "nanokv: interrupted\n")


def test_ctrl_c_ends_a_process_with_one_line_and_exit_130(model, own):
    done = subprocess_line(model, *GOOD, "--score", own("killed"))
    assert (done.returncode, done.stderr) == (130, "nanokv: interrupted\n")
