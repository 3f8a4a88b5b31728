"""Published figures: those that the papers print, and beside which cells they stand."""

import pytest
from eval_lines import SETTINGS, full, line

from eval.arrange import tables
from eval.layout import markdown
from eval.layout_csv import as_csv
from eval.merge import Runs
from eval.published import FIGURES, bare
from eval.recipes import LONGBENCH, RULER
from eval.tasks import find_task
from nanokv.methods import find

QWEN = {**SETTINGS, "model": "Qwen2.5-7B-Instruct"}
LLAMA = {**SETTINGS, "model": "Meta-Llama-3.1-8B-Instruct"}


def text(made, by="budget", settings=QWEN, write=markdown, **options) -> str:
    runs = Runs(settings, "", made)
    return write([(runs, table) for table in tables(made, by)], **options)


def math500(label="counter_causal", **more):
    return line(label=label, **{"task": "math500", "budget": 512, "every": 256, **more})


def longbench(label="lore_e", names=LONGBENCH, **more) -> list:
    return [line(task=f"longbench/{name}", label=label, **{"budget": 128, **more}) for name in names]


def figures(model, task, source) -> dict:
    return {p.method: p.figure for p in FIGURES if (p.model, p.task) == (model, task) and p.source.startswith(source)}


def test_the_figures_of_the_counter_causal_paper():
    """Table 2, J = 512, and the re-run's own; LongHealth at J = 8000 and LoCoMo's category 1 at J = 15000."""
    names = ["full", "sliding_window", "h2o_released", "counter_causal", "counter_causal_fast"]
    paper, rerun = "arXiv 2607.27600, Table 2", "re-run"
    for model, source, percent in (
        ("Qwen2.5-7B-Instruct", paper, (76.6, 69.2, 76.2, 74.4, 73.6)),
        ("Qwen2.5-7B-Instruct", rerun, (76.0, 69.2, 75.8, 74.0, 73.8)),
        ("Llama-3.1-8B-Instruct", paper, (48.8, 45.8, 46.4, 48.2, 48.0)),
        ("Llama-3.1-8B-Instruct", rerun, (49.2, 46.2, 46.4, 48.2, 49.6)),
    ):
        assert figures(model, "math500", source) == dict(zip(names, percent))
    assert figures("Qwen2.5-3B-Instruct", "math500", paper) == {"counter_causal": 60.2}
    assert figures("Qwen2.5-14B-Instruct", "math500", paper) == {"counter_causal": 75.8}
    health = dict(zip(("full", *names[2:]), (81.0, 77.5, 79.0, 80.5)))
    assert figures("Llama-3.1-8B-Instruct", "longhealth", rerun) == health
    talk = dict(zip(names, (23.2, 20.4, 18.9, 23.3, 22.5)))
    assert figures("Llama-3.1-8B-Instruct", "locomo category=1", rerun) == talk
    kinds = {(p.task, p.budget, p.refresh) for p in FIGURES if "2610" not in p.source}
    assert {kind for kind in kinds if kind[1]} == {
        ("math500", 512, "J/2"),
        ("longhealth", 8000, "J/4"),
        ("locomo category=1", 15000, "J/4"),
    }


def test_the_figures_of_lore_kv_s_page():
    names = ["full", "criticalkv", "andpro", "lore_e", "lore_d"]
    for model, percent in {
        "Mistral-7B-Instruct-v0.2": (42.51, 38.42, 38.96, 40.28, 40.21),
        "Llama-3.1-8B-Instruct": (49.29, 44.62, 46.06, 46.11, 46.27),
        "Qwen2.5-14B-Instruct": (49.37, 43.47, 45.49, 48.16, 48.24),
        "Ministral-3-8B-Instruct-2512": (49.67, 44.79, 46.74, 47.30, 47.24),
    }.items():
        assert figures(model, "longbench", "arXiv 2610.07643") == dict(zip(names, percent))
    long = {65536: (34.82, 49.62, 57.75, 57.29), 131072: (30.28, 39.40, 51.05, 51.04)}
    for length, percent in long.items():
        assert figures("Llama-3.1-8B-Instruct", f"ruler@{length}", "arXiv 2610.07643") == dict(zip(names[1:], percent))
    lore = [p for p in FIGURES if "2610" in p.source]
    assert len(lore) == 28 and {(p.budget, p.refresh) for p in lore if p.method != "full"} == {(128, "once")}


def test_every_figure_is_of_a_method_and_task_that_can_be_run():
    for p in FIGURES:
        assert find(p.method) and (p.budget is None) == (p.method == "full")
        if p.n_tasks == 1:
            assert find_task(p.task.split()[0])
        else:
            assert (p.task.split("@")[0], p.n_tasks) in (("longbench", len(LONGBENCH)), ("ruler", len(RULER)))


def test_the_figure_stands_beside_ours_with_its_source():
    """Paper and re-run: two figures for one cell."""
    shown = text([math500(), math500("h2o")])
    assert "| counter_causal |     J/2 | 100.0, published 74.4 (1), published 74.0 (2) |" in shown
    assert "| h2o            |     J/2 |                                         100.0 |" in shown
    paper, rerun = "arXiv 2607.27600, Table 2, n = 500", "re-run by au-han17/counter_causal, fp16, n = 500"
    assert f"\n\nPublished (1): {paper}.\n\nPublished (2): {rerun}.\n\n" in shown
    assert f',74.4 | 74.0,"{paper} | {rerun}"\n' in text([math500()], write=as_csv)
    assert "published" not in text([math500()], measure="kl")


@pytest.mark.parametrize(
    ("sample", "settings", "there"),
    [
        (math500("counter_causal partial=1"), QWEN, True),
        (full((1,), task="math500")[0], QWEN, True),
        (math500(), {**QWEN, "model": "hub/qwen2.5-7b-instruct/", "raw": False, "max_new_tokens": None}, True),
        (math500(), {**QWEN, "max_prompt": 31500, "dtype": "float16"}, True),
        (math500("counter_causal span=9"), QWEN, False),
        (math500("h2o"), QWEN, False),
        (math500(budget=256, every=128), QWEN, False),
        (math500(every=128), QWEN, False),
        (math500(every=None), QWEN, False),
        (math500(ask="after"), QWEN, False),
        (math500(task="aime2024"), QWEN, False),
        (math500(), SETTINGS, False),
        (math500(), {}, False),
        (math500(), {**QWEN, "model": "Qwen2.5-7B"}, False),
        (math500(), {**QWEN, "max_new_tokens": 32}, False),
        (math500(), {**QWEN, "protect": "sinks:4"}, False),
    ],
)
def test_it_stands_only_where_model_method_budget_schedule_and_task_are_the_same(sample, settings, there):
    assert ("published" in text([sample], settings=settings)) == there


def test_a_mean_is_compared_only_over_all_tasks():
    assert "published 46.11 (1)" in text(longbench(), settings=LLAMA)
    by_task = text(longbench(), "task", settings=LLAMA)
    assert by_task.count("published 46.11 (1)") == 1
    assert "published" not in text(longbench(names=LONGBENCH[1:]), settings=LLAMA)
    assert "published" not in text(longbench(budget=256), settings=LLAMA)
    assert "published" not in text(longbench(), settings={**LLAMA, "model": "Llama-3.2-1B-Instruct"})
    ruler = [line(task=f"ruler/{name}@{n}", label="andpro", budget=128) for n in (32768, 65536) for name in RULER]
    assert text(ruler, "length", settings=LLAMA).count("published 49.62 (1)") == 1


def test_a_category_is_compared_as_a_category():
    made = [
        line(task="locomo", sample=i, label="counter_causal", budget=15000, every=3750, details={"category": i})
        for i in (1, 2)
    ]
    shown = text(made, "category", settings=LLAMA)
    assert shown.count("published 23.3 (1)") == 1 and shown.count("published") == 1
    assert "published" not in text(made, settings=LLAMA)


def test_a_checkpoint_is_known_by_its_folder_s_name():
    assert bare("meta-llama/Meta-Llama-3.1-8B-Instruct") == bare("Llama-3.1-8B-Instruct/") == "llama-3.1-8b-instruct"
