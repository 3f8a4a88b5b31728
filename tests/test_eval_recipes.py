"""Recipes: every one loads, names what exists, and a wrong one is refused in one line that names the fault."""

import pytest

from eval.recipe import DEFAULTS, names, read_method, read_recipe
from eval.recipes import LONGBENCH, RULER
from nanokv import UserError

GOOD = dict(task=["math500"], method=["full", "snapkv kernel=5"], budget=[64])


def write(tmp_path, *runs, text='TITLE = "t"\nSOURCE = "s"\nREADING = "r"\n'):
    path = tmp_path / "mine.py"
    path.write_text(text + f"RUNS = {list(runs)!r}\n")
    return str(path)


@pytest.mark.parametrize("name", names())
def test_every_recipe_loads_with_all_fields_filled(name):
    recipe = read_recipe(name)
    assert recipe.name == name and recipe.runs
    for run in recipe.runs:
        assert run.keys() == DEFAULTS.keys()
        assert len(set(run["task"])) == len(run["task"]) and len(set(run["method"])) == len(run["method"])


@pytest.mark.parametrize("name", [name for name in names() if name not in ("smoke", "small")])
def test_a_recipe_of_a_paper_says_which_table_or_figure(name):
    recipe = read_recipe(name)
    paper = {"counter": "arXiv 2607.27600", "lore": "arXiv 2610.07643"}[name.split("_")[0]]
    assert recipe.source.startswith(paper) and recipe.source != paper


def test_the_recipes_that_the_tables_and_figures_need_are_there():
    tables = {"counter_causal_table1", "counter_causal_table2", "counter_causal_table3"}
    curves = {"counter_causal_longhealth", "counter_causal_qasper", "counter_causal_locomo"}
    lore = {"lore_longbench", "lore_budget", "lore_ruler_4k_16k", "lore_ruler_long", "lore_needle"}
    assert tables | curves | lore | {"lore_matched_compute", "smoke", "small"} <= set(names())


def test_defaults_are_filled_in(tmp_path):
    (run,) = read_recipe(write(tmp_path, GOOD)).runs
    assert run["task"] == ["math500"] and run["budget"] == [64]
    assert (run["every"], run["ask"], run["samples"], run["seeds"]) == (None, ["before"], None, [0])
    assert (run["max_prompt"], run["protect"], run["settings"], run["optional"]) == (None, None, {}, False)


def test_table_2_takes_h_256_and_no_other_schedule():
    assert {run["every"] for run in read_recipe("counter_causal_table2").runs} == {256}


def test_matched_compute_gives_both_sides_the_same_lookahead_tokens():
    (run,) = read_recipe("lore_matched_compute").runs
    lore, andpro = ([m for m in run["method"] if m.startswith(f"{side} ")] for side in ("lore_e", "andpro_lookahead"))
    assert [m.split(" ", 1)[1] for m in lore] == [m.split(" ", 1)[1] for m in andpro] and "lore_e M=4 T=8" in lore


def test_small_has_the_rows_and_protocols_that_it_promises():
    runs = read_recipe("small").runs
    rows = {method for run in runs for method in run["method"]}
    spans = {f"causal_surprise span={span}" for span in (1, 9, 17, 33)}
    assert {"random", "unigram", "counter_causal start=blind", "counter_causal span=9"} | spans <= rows
    assert all(run["ask"] == ["before", "after"] and run["samples"] >= 50 and len(run["budget"]) == 2 for run in runs)
    assert len({task for run in runs for task in run["task"]}) >= 3


def test_smoke_touches_every_task_that_has_a_family():
    tasks = {task.partition("@")[0] for run in read_recipe("smoke").runs for task in run["task"]}
    assert {f"ruler/{name}" for name in RULER} | {f"longbench/{name}" for name in LONGBENCH} <= tasks
    optional = {task for run in read_recipe("smoke").runs if run["optional"] for task in run["task"]}
    assert {"ruler/qa_1@1024", "math500"} <= optional and "ruler/vt@1024" not in optional


def test_the_name_lists_are_those_of_the_tasks():
    from eval.tasks import longbench, ruler

    assert list(ruler.TABLE) == RULER and list(longbench.TABLE) == LONGBENCH


def test_a_method_is_read_with_its_options():
    method, options = read_method("counter_causal span=9 partial=1")
    assert method.name == "counter_causal" and options == {"span": "9", "partial": "1"}


WRONG = [
    ({"tasks": ["x"]}, "has no field 'tasks'; there are: task, method, budget"),
    ({"task": []}, "task cannot be []"),
    ({"task": "math500"}, "task cannot be 'math500'; it takes a list of names"),
    ({"method": ["snapvk"]}, "unknown method 'snapvk'"),
    ({"method": ["snapkv wnidow=3"]}, "no option 'wnidow'"),
    ({"method": ["snapkv window=many"]}, "option window cannot be 'many'"),
    ({"method": ["snapkv window"]}, "options are KEY=VALUE"),
    ({"method": ["snapkv window=8 window=9"]}, "each once"),
    ({"budget": []}, "budget is missing; only full"),
    ({"budget": [True]}, "budget cannot be [True]"),
    ({"budget": [0]}, "budget cannot be [0]"),
    ({"every": "J/3"}, "every cannot be 'J/3'; it takes a whole number, 'J/4', 'J/2', 'once' or None"),
    ({"ask": ["during"]}, "ask cannot be ['during']"),
    ({"seeds": []}, "seeds cannot be []"),
    ({"dtype": "float8"}, "dtype cannot be 'float8'"),
    ({"protect": "sink:4"}, "--protect does not know sink"),
    ({"optional": 1}, "optional cannot be 1"),
]


@pytest.mark.parametrize(("change", "says"), WRONG, ids=[says[:40] for _, says in WRONG])
def test_a_wrong_field_is_refused_by_run_and_name(tmp_path, change, says):
    with pytest.raises(UserError) as e:
        read_recipe(write(tmp_path, GOOD, {**GOOD, **change}))
    assert says in str(e.value) and ", run 2" in str(e.value) and "\n" not in str(e.value)


def test_a_missing_field_is_named(tmp_path):
    with pytest.raises(UserError, match="run 1: method is missing"):
        read_recipe(write(tmp_path, dict(task=["math500"], budget=[64])))


def test_full_alone_needs_no_budget(tmp_path):
    assert read_recipe(write(tmp_path, dict(task=["math500"], method=["full"]))).runs[0]["budget"] == []


@pytest.mark.parametrize("word", ["TITLE", "SOURCE", "READING"])
def test_a_recipe_without_its_words_is_refused(tmp_path, word):
    text = "".join(f'{other} = "x"\n' for other in ("TITLE", "SOURCE", "READING") if other != word)
    with pytest.raises(UserError, match=f"needs {word}"):
        read_recipe(write(tmp_path, GOOD, text=text))


def test_no_runs_no_such_recipe_and_broken_python_are_one_line_each(tmp_path):
    with pytest.raises(UserError, match="needs RUNS"):
        read_recipe(write(tmp_path))
    with pytest.raises(UserError, match="run 1 is not a dict"):
        read_recipe(write(tmp_path, "math500"))
    with pytest.raises(UserError, match=r"unknown recipe 'smok'; there are: .*smoke"):
        read_recipe("smok")
    with pytest.raises(UserError, match="unknown recipe '__init__'"):
        read_recipe("__init__")
    with pytest.raises(UserError, match="NameError"):
        read_recipe(write(tmp_path, text="x = y\n"))
