"""Whether two answers are equal: verdicts by hand, hostile answers, a checker that dies, and published verdicts."""

import time
from pathlib import Path

import pytest

pytest.importorskip("math_verify", reason="pip install -r eval/requirements.txt")

from eval_data import data_root

from eval import check_math500, math_check
from eval.math_check import equal, normalized
from eval.task import Request
from eval.tasks.math500 import load
from nanokv import UserError

SAMPLES = Path(__file__).parent / "eval_samples"
SAID = '{"id": "invented/%s.json", "pred_raw": "%s", "pred": %s, "correct": %s}\n'


@pytest.mark.parametrize(
    ("pred", "gold"),
    [
        ("0.5", r"\frac{1}{2}"),
        (r"\dfrac12", r"\frac{1}{2}"),
        (r"(2,3)", r"\left( 2, 3 \right)"),
        (r"\text{Evelyn}", "Evelyn"),
        (r"x^2+2x+1", "(x+1)^2"),
        (r"\{3, -3\}", r"\{-3, 3\}"),
        (r"1,\!000", "1000"),
        (r"\$18.90", "18.90"),
        (r"\sqrt{8}", r"2\sqrt{2}"),
        ("x = 5", "5"),
    ],
)
def test_equal_answers_are_equal(pred, gold):
    assert equal(pred, gold) is True


@pytest.mark.parametrize(
    ("pred", "gold"),
    [
        ("2", "3"),
        ("(3,2)", "(2,3)"),
        (r"\{3\}", r"\{-3, 3\}"),
        (r"\frac{1}{3}", "0.33"),
        (r"\text{Monday}", r"\text{Sunday}"),
        ("", "0"),
        ("0", ""),
        ("a\nb", "5"),
        (r"\frac{", "5"),
        ("\ud800", "5"),
    ],
)
def test_other_answers_and_broken_ones_are_not(pred, gold):
    assert equal(pred, gold) is False


def test_normalising_drops_what_cannot_be_seen_and_nothing_else():
    assert normalized(r" $\left( 1,\! 2 \right)$. ") == "(1,2)"
    assert normalized(r"\tfrac{1}{2}") == normalized(r"\dfrac {1} {2}") == r"\frac{1}{2}"
    assert normalized(r"\leftarrow \$5 \dfraction") == r"\leftarrow5\dfraction"
    assert normalized(r"1 \\ 2") == r"1\\2"


@pytest.mark.parametrize(
    "pred",
    [r"9^{9^{9^9}}", "{" * 10_000, "{" * 999, r"\frac{" * 100, "(" * 999, "1" * 999, "100!!!", r"2^{10^{10}}"],
    ids=lambda text: text[:12],
)
def test_a_hostile_answer_gets_its_verdict_within_a_second_and_the_next_one_too(pred):
    math_check.prepare()
    start = time.perf_counter()
    assert equal(pred, "5") is False
    assert time.perf_counter() - start < 1
    assert equal("10/2", "5") is True


def test_text_is_never_evaluated(tmp_path):
    trace = tmp_path / "trace"
    for code in (f"open('{trace}','w')", f"__import__('os').system('touch {trace}')"):
        for pred in (
            code,
            rf"\text{{{code}}}",
            rf"\mathrm{{{code}}}",
            f'"{code}"',
            f"1;{code}",
            rf"\frac{{{code}}}{{2}}",
        ):
            assert equal(pred, "5") is False
    assert not trace.exists()


def test_a_checker_that_was_killed_is_started_again():
    math_check.prepare()
    math_check.WORKER.process.kill()
    math_check.WORKER.process.wait()
    assert equal("1.0", "1") is True


def test_a_missing_math_verify_is_named_before_anything_is_answered(monkeypatch):
    monkeypatch.setattr(math_check.importlib.util, "find_spec", lambda name: None)
    for call in (lambda: equal("1", "1"), lambda: load(Request(n=1, data=SAMPLES))):
        with pytest.raises(UserError, match=r"^math_verify is missing: pip install -r eval/requirements\.txt$"):
            call()


def test_a_checker_that_does_not_start_is_an_error_and_not_a_verdict(monkeypatch):
    math_check.WORKER.stop()
    monkeypatch.setattr(math_check.sys, "executable", "false")
    with pytest.raises(UserError, match=r"does not start; to see why: python -m eval\.math_worker"):
        equal("2", "1")


def test_a_run_is_compared_answer_by_answer(tmp_path, capsys):
    lines = [
        SAID % ("prealgebra/1", r"\\boxed{1.75}", '"1.75"', "true"),
        SAID % ("algebra/2", r"\\boxed{(3,2)}", '"(3,2)"', "true"),  # we say wrong
        SAID % ("algebra/3", r"\\boxed{1} \\boxed{2", '"1"', "false"),  # we read no answer
        SAID % ("counting/4", "on Sunday", "null", "false"),
    ]
    path = tmp_path / "run.jsonl"
    path.write_text("".join(lines), "utf-8")
    assert check_math500.main([str(path), "--data", str(SAMPLES)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "run.jsonl: accuracy 0.250 of 4, 2 differences",
        r"  invented/algebra/2.json: '(3,2)' for '\\left( 2, 3 \\right)' is False to us, True to the run",
        "  invented/algebra/3.json: we read None, the run '1'",
    ]
    path.write_text(lines[0] + lines[3], "utf-8")
    assert check_math500.main([str(path), "--data", str(SAMPLES)]) == 0


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "has no answers"),
        ("{}", 'line 1: "id" should be a string'),
        (SAID % ("algebra/9", "", "null", "false"), "no problem invented/algebra/9.json"),
        (SAID % ("algebra/2", "", "null", "null"), '"correct" should be true or false'),
    ],
)
def test_a_file_that_is_no_run_is_named_in_one_line(line, message, tmp_path, capsys):
    (tmp_path / "run.jsonl").write_text(line, "utf-8")
    assert check_math500.main([str(tmp_path / "run.jsonl"), "--data", str(SAMPLES)]) == 1
    said = capsys.readouterr().err
    assert said.startswith("eval.check_math500: error: ") and said.count("\n") == 1
    assert message in said and "run.jsonl" in said


@pytest.mark.parametrize(("run", "right"), [("R-06", 380), ("R-09", 370)])
def test_published_verdicts_are_ours_sample_by_sample(run, right):
    """Qwen2.5-7B-Instruct, 500 answers each, from an independent re-run of the released code: .760 and .740."""
    root = data_root()
    path = root and root / "reference_runs" / f"{run}.generations.jsonl.gz"
    if path is None or not path.is_file() or not (root / "math500" / "test.jsonl").is_file():
        pytest.skip(f"no reference_runs/{path.name if path else run} or no math500/test.jsonl under NANOKV_DATA")
    samples = {sample.id: sample for sample in load(Request(n=999, data=root))}
    verdicts, differing = check_math500.compared(path, samples)
    assert (sum(verdicts), len(verdicts), differing) == (right, 500, [])
