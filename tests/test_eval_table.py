"""Tables: the figures of their cells by hand, and the command line. Their looks are in test_eval_layout.py."""

import csv
import io

import pytest
from eval_lines import SETTINGS, failed, full, line, samples, write

from eval.arrange import tables
from eval.cells import FIGURES, MEASURES
from eval.layout_csv import as_csv
from eval.merge import Runs
from eval.table import main

TASKS = ["ruler/vt@1024", "ruler/cwe@1024"]


def rows_of_csv(samples, by="budget", measure="score", against=None, settings=SETTINGS) -> list:
    runs = Runs(settings, "", samples)
    text = as_csv([(runs, table) for table in tables(samples, by)], measure, against)
    return list(csv.DictReader(io.StringIO(text)))


def numbers(row: dict, *names) -> list:
    return [float(row[name]) if row[name] else None for name in names]


def test_mean_count_and_what_stands_beside_are_those_by_hand():
    """Scores 1, 0.5, 0 and a failure: (100 + 50 + 0 + 0) / 4. What a failure did not measure is not in a mean."""
    made = samples((1.0, 0.5, 0.0), n_cut=0)
    made[1] |= {"answered": False, "n_cut": 7, "kept_rows": 60.0, "bytes_held": 2**21, "seconds": {"decode": 4.75}}
    made[2] |= {"fidelity": {"kl": 1.0, "top1": 1.0, "nll": 5.0}, "peak_rows": 1000}
    (row,) = rows_of_csv([*made, failed(sample=3)])
    assert numbers(row, "mean", "n", "runs", "errors", "tasks") == [37.5, 4, 4, 1, 1]
    assert numbers(row, "kl", "top1", "nll") == [0.5, (50 + 50 + 100) / 3, 3.0]
    assert numbers(row, "no_answer", "cut", "kept_rows", "mib") == [25, 25, (64 + 60 + 64) / 3, 4 / 3]
    assert numbers(row, "peak_rows", "seconds") == [(900 + 900 + 1000) / 3, (1.75 + 4.75 + 1.75) / 3]


def test_equal_scores_have_an_interval_of_one_point_and_a_single_one_none():
    (row,) = rows_of_csv(samples((0.5, 0.5, 0.5)))
    assert numbers(row, "mean", "low", "high") == [50, 50, 50]
    (row,) = rows_of_csv([line()])
    assert numbers(row, "mean", "low", "high", "n") == [100, None, None, 1]


@pytest.mark.parametrize(("measure", "mean"), [("kl", 0.25), ("top1", 50.0), ("nll", 2.0)])
def test_another_measure_leaves_out_samples_without_it(measure, mean):
    one, other = rows_of_csv([*full((1, 1)), *samples((1, 1, 1)), failed(sample=3)], measure=measure)
    assert [one["method"], *numbers(one, "mean", "n")] == ["full", None, None]
    assert numbers(other, "mean", "low", "high", "n", "runs") == [mean, mean, mean, 3, 4]


def test_seeds_of_one_sample_are_averaged_before_they_are_counted():
    """Sample 0: (1 + 0 + 0) / 3, sample 1: 1; mean (33.3 + 100) / 2, not 2 of 4."""
    made = [line(score=1.0, seed=0), line(score=0.0, seed=1), line(score=0.0, seed=2), line(sample=1)]
    (row,) = rows_of_csv(made)
    assert numbers(row, "mean", "n", "runs") == [pytest.approx((100 / 3 + 100) / 2), 2, 4]


def test_a_difference_pairs_sample_and_seed_and_drops_what_only_one_has():
    """Pairs: sample 0 at seed 0 (1 - 0) and seed 1 (0 - 1): 0; sample 1 at seed 0 (1 - 0.5): 50. Mean 25.

    Seed 2 of sample 0 and sample 2 are only ours, sample 3 only theirs.
    """
    ours = [line(score=s, seed=i) for i, s in enumerate((1.0, 0.0, 1.0))] + [line(sample=1), line(sample=2)]
    theirs = [line(score=s, seed=i, label="h2o") for i, s in enumerate((0.0, 1.0))]
    theirs += [line(score=0.5, sample=1, label="h2o"), line(sample=3, label="h2o")]
    row, base = rows_of_csv([*ours, *theirs], against="h2o")
    assert row["against"] == "h2o refresh=once" and (base["against"], base["difference"]) == ("", "")
    names = ("difference", "difference_low", "difference_high", "difference_n", "difference_tasks")
    assert numbers(row, *names) == [25, 0, 50, 2, 1]


def test_a_failed_sample_counts_as_zero_in_a_difference():
    _, row = rows_of_csv([*full((1, 1)), line(score=1.0), failed(sample=1)], against="full")
    assert numbers(row, "difference", "difference_n") == [-50, 2]


def test_a_difference_stays_within_budget_protocol_and_task():
    """Without a common sample at the same budget and ask there is none; tasks weigh alike: ((0) + (100)) / 2."""
    base = [line(label="h2o", score=0.0, budget=b, ask=a, task=t) for b, a, t in ((64, "before", TASKS[0]),)]
    ours = [line(budget=128), line(ask="after"), line(task=TASKS[1])]
    assert {row["difference"] for row in rows_of_csv([*base, *ours], against="h2o")} == {""}
    two = samples((0, 1, 0), task=TASKS[0]) + samples((1,), task=TASKS[1])
    base = samples((0, 1, 0), task=TASKS[0], label="h2o") + samples((0,), task=TASKS[1], label="h2o")
    made = {(row["subject"], row["method"]): row for row in rows_of_csv([*two, *base], against="h2o")}
    mean = made["ruler@1024, mean of its tasks", "snapkv"]
    assert numbers(mean, "mean", "difference", "difference_n", "difference_tasks") == [200 / 3, 50, 4, 2]


def test_every_figure_and_measure_takes_every_line():
    for sample in (line(), failed(), *full((1,))):
        for figure in (*FIGURES.values(), *MEASURES.values()):
            assert isinstance(figure(sample), int | float | None)


def test_runs_with_other_settings_have_tables_of_their_own(tmp_path, capsys):
    write(tmp_path / "run.rank0of1.jsonl", samples((1, 1)))
    write(tmp_path / "run-2.rank0of1.jsonl", samples((0, 0)), {**SETTINGS, "max_prompt": 512})
    assert main([str(tmp_path), "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(row["settings"], row["mean"]) for row in rows] == [("max_prompt 512", "0.0"), ("max_prompt None", "100.0")]


WRONG = [
    (["--by", "categroy"], "--by categroy: no sample has that; there are: budget, length, task, category"),
    (["--against", "h2o"], "--against 'h2o' was not run; there are: snapkv"),
    (["--against", "snapkv"], "--against 'snapkv' could be: snapkv refresh=once, snapkv refresh=J/4"),
]


@pytest.mark.parametrize(("words", "says"), WRONG)
def test_a_wrong_word_is_one_line_on_stderr(tmp_path, capsys, words, says):
    write(tmp_path / "run.rank0of1.jsonl", [line(details={"category": 1}), line(every=16)])
    assert main([str(tmp_path), *words]) == 1
    assert capsys.readouterr() == ("", f"eval.table: error: {says}\n")
    assert main([str(tmp_path), "--against", "snapkv refresh=J/4"]) == 0
