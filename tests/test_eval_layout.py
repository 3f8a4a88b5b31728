"""How tables look: tiny ones as exact text, and figures as words."""

import re

import pytest
from eval_lines import SETTINGS, failed, full, line, samples

from eval.arrange import tables
from eval.layout import MARKED, NOTES, decimals, markdown, number
from eval.merge import Runs
from eval.statistics import Estimate


def text(made, by="budget", measure="score", against=None, settings=SETTINGS, further="") -> str:
    runs = Runs(settings, further, made)
    return markdown([(runs, table) for table in tables(made, by)], measure, against)


def squeezed(shown: str) -> str:
    return re.sub(" +", " ", shown)


TABLE = """\
## ruler/vt@1024, question-aware

Mean score x 100 [95% interval] by budget; n = 2 samples a cell. weights/SmolLM2-135M-Instruct, float32, cpu.

| method | refresh |                   64 |                  128 |
| :----- | ------: | -------------------: | -------------------: |
| full   |       - | 100.0 [100.0, 100.0] | 100.0 [100.0, 100.0] |
| snapkv |    once |    50.0 [0.0, 100.0] | 100.0 [100.0, 100.0] |

| method | refresh | budget | kept rows | peak rows |  MiB |    s |    KL | top-1 % |   nll | no answer % | cut % | errors |
| :----- | ------: | -----: | --------: | --------: | ---: | ---: | ----: | ------: | ----: | ----------: | ----: | -----: |
| full   |       - |    any |       900 |       900 | 1.00 | 1.75 |     - |       - |     - |         0.0 |   0.0 |      0 |
| snapkv |    once |     64 |        64 |       900 | 1.00 | 1.75 | 0.250 |    50.0 | 2.000 |         0.0 |   0.0 |      0 |
| snapkv |    once |    128 |       128 |       900 | 1.00 | 1.75 | 0.250 |    50.0 | 2.000 |         0.0 |   0.0 |      0 |

"""  # noqa: E501
DIFFERENCES = """

Minus full, over the n samples that both have [95% interval]; `*` where it excludes 0:

| method | refresh |                             64 |
| :----- | ------: | -----------------------------: |
| snapkv |    once | -100.0 [-100.0, -100.0], n=2 * |
| h2o    |    once |      -50.0 [-100.0, +0.0], n=2 |
| tova   |    once |                              - |

"""


def test_one_table_in_full():
    """full: 100. snapkv at 64: (100 + 0) / 2, at 128: 100. Of two samples, 0 and 100, the interval is all of it."""
    made = [*full((1, 1)), *samples((1, 0)), *samples((1, 1), budget=128)]
    assert text(made) == TABLE + NOTES + "\n"


def test_differences_stand_in_a_table_of_their_own():
    """snapkv: 0 - 100 on both samples; h2o: 0 on one, -100 on the other; tova has no sample with full in common."""
    made = [*full((1, 1)), *samples((0, 0)), *samples((1, 0), label="h2o"), line(sample=7, label="tova")]
    shown = text(made, against="full")
    assert shown.endswith(f"\n\n{NOTES}\n\n{MARKED}\n")
    assert "| tova | once | 100.0, n=1 |" in squeezed(shown)
    assert DIFFERENCES in shown


def test_a_table_without_the_method_to_compare_with_says_so():
    made = [*full((1, 1)), line(task="math500"), *full((1,), task="qasper")]
    shown = text(made, against="snapkv")
    assert shown.count("snapkv was not run here: no differences.") == 2 and "Minus snapkv" not in shown
    assert "snapkv refresh=once stands alone here: no differences." in shown


def test_cells_of_other_sizes_and_fewer_tasks_are_marked():
    made = [*samples((1, 1, 1)), *samples((1, 1), task="ruler/cwe@1024"), *samples((0, 0), label="h2o")]
    _, mean, vt, cwe = text([*made, failed(sample=4, label="h2o")]).split("## ")
    assert "| snapkv |    once |         100.0 [100.0, 100.0], n=5 |" in mean
    assert "| h2o    |    once | 0.0 [0.0, 0.0], n=3, 1 of 2 tasks |" in mean
    assert "| h2o    |    once |       0.0 [0.0, 0.0] |" in vt and "; n = 3 samples a cell." in vt
    assert "; n = 2 samples a cell." in cwe and "samples a cell" not in mean
    assert "|         0.0 |   0.0 |      1 |" in vt


def test_the_caption_says_what_the_runs_were_set_to_and_what_is_measured():
    shown = text([line(), line(sample=1)], measure="kl", further="max_prompt 1024")
    says = "KL(full || evicted), nats a token [95% interval] by budget; n = 2 samples a cell. "
    assert says + "weights/SmolLM2-135M-Instruct, float32, cpu, max_prompt 1024.\n" in shown
    assert "| snapkv |    once | 0.250 [0.250, 0.250] |" in shown


def test_by_task_the_mean_stands_last():
    shown = text(
        [line(task=f"longbench/{name}", score=s) for name, s in (("lcc", 1), ("trec", 0), ("qmsum", 0.2))], "task"
    )
    assert shown.startswith("## longbench, question-aware, budget 64\n")
    assert "| method | refresh | lcc | trec | qmsum | mean |" in squeezed(shown)
    assert "| snapkv | once | 100.0, n=1 | 0.0, n=1 | 20.0, n=1 | 40.0, n=3 |" in squeezed(shown)


FIGURES = [
    ((Estimate(43.21, 36.06, 50.04, 5, 1), "score"), "43.2 [36.1, 50.0]"),
    ((Estimate(70.0, None, None, 1, 1), "score"), "70.0"),
    ((Estimate(2.5, -0.04, 5.0, 5, 1), "score", "+"), "+2.5 [+0.0, +5.0]"),
    ((Estimate(0.12345, 0.1, 0.2, 5, 1), "kl"), "0.123 [0.100, 0.200]"),
    ((None, "score"), "-"),
]


@pytest.mark.parametrize(("given", "shown"), FIGURES, ids=[shown for _, shown in FIGURES])
def test_a_figure_in_words(given, shown):
    assert number(*given) == shown


def test_decimals_never_say_minus_zero():
    assert decimals(-0.04, 1) == "0.0" and decimals(63.5, 0) == "64" and decimals(None, 1) == "-"
