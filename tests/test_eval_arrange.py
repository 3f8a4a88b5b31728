"""Which samples stand together in a cell of a table, and how its rows and columns are ordered."""

from eval_lines import failed, full, line

from eval.arrange import tables

TASKS = ["ruler/vt@1024", "ruler/cwe@1024", "ruler/vt@2048", "needle@1024", "needle@2048", "math500"]


def cells(samples, by="budget") -> dict:
    """{(title, row, column): samples}."""
    return {
        (table.title, row.name, column): [(s["task"], s["sample"], s["seed"]) for s in cell.samples]
        for table in tables(samples, by)
        for (row, column), cell in table.cells.items()
    }


def test_protocols_are_never_mixed():
    made = cells([line(ask="after"), line(score=0.0), line(ask="after", sample=1)])
    before, after = ("ruler/vt@1024, question-aware", "ruler/vt@1024, question-agnostic")
    assert list(made) == [(before, "snapkv refresh=once", 64), (after, "snapkv refresh=once", 64)]
    assert [len(samples) for samples in made.values()] == [1, 2]


def test_full_stands_beside_every_budget():
    made = cells([*full((1,)), line(budget=128), line(budget=64)])
    assert {key[1:] for key in made} == {
        *(("full", budget) for budget in (64, 128)),
        *(("snapkv refresh=once", budget) for budget in (64, 128)),
    }
    assert [key[1:] for key in cells(full((1,)))] == [("full", "full")]


def test_schedules_and_options_are_rows_of_their_own_and_full_comes_first():
    made = [line(every=every) for every in (32, 16, 10)] + [line(label="snapkv window=8"), *full((1,))]
    (table,) = tables(made, "budget")
    names = ["full", *(f"snapkv refresh={every}" for every in ("J/2", "J/4", "10")), "snapkv window=8 refresh=once"]
    assert [row.name for row in table.rows] == names


def test_by_budget_every_task_and_the_mean_of_a_family_at_one_length():
    made = cells([line(task=task) for task in TASKS])
    mean = "ruler@1024, mean of its tasks, question-aware"
    assert [key[0] for key in made] == [mean, *(f"{task}, question-aware" for task in TASKS)]
    assert made[mean, "snapkv refresh=once", 64] == [(task, "0", 0) for task in TASKS[:2]]


def test_by_length_one_table_a_task_and_budget():
    made = cells([line(task=task, budget=budget) for task in TASKS for budget in (64, 128)], "length")
    mean = "ruler, mean of its tasks, question-aware, budget 64"
    assert [key[::2] for key in made if key[0].endswith("64")] == [
        *((mean, length) for length in (1024, 2048)),
        *(("ruler/vt, question-aware, budget 64", length) for length in (1024, 2048)),
        ("ruler/cwe, question-aware, budget 64", 1024),
        *(("needle, question-aware, budget 64", length) for length in (1024, 2048)),
        ("math500, question-aware, budget 64", "-"),
    ]
    assert made[mean, "snapkv refresh=once", 1024] == [(task, "0", 0) for task in TASKS[:2]]


def test_by_task_lengths_are_not_mixed():
    made = cells([line(task=task) for task in TASKS], "task")
    assert [(key[0].split(",")[0], key[2]) for key in made] == [
        *(("ruler@1024", column) for column in ("vt", "mean", "cwe")),
        ("ruler@2048", "vt"),
        *(("tasks without a family", column) for column in ("needle@1024", "needle@2048", "math500")),
    ]
    assert tables([line(task=task) for task in TASKS], "task")[0].columns == ["vt", "cwe", "mean"]
    assert all(len(samples) == 1 for key, samples in made.items() if key[2] != "mean")


def test_by_a_detail_a_failed_sample_counts_where_another_method_shows_it_belongs():
    """Sample 1 is of category 2, as h2o's line says. Sample 2 failed under every method: it is in "all" alone."""
    mine = [line(task="locomo", sample=0, details={"category": 1}), failed(task="locomo", sample=1)]
    made = [*mine, failed(task="locomo", sample=2)]
    other = [line(task="locomo", sample=i, label="h2o", details={"category": i + 1}) for i in (0, 1)]
    there = {
        key[2]: [s for _, s, _ in samples]
        for key, samples in cells([*made, *other], "category").items()
        if "snap" in key[1]
    }
    assert there == {1: ["0"], 2: ["1"], "all": ["0", "1", "2"]}
    (table,) = tables([*made, *other, line()], "category")
    assert table.columns == [1, 2, "all"] and table.title == "locomo, question-aware, budget 64"
