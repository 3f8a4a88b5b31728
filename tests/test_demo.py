"""`python -m nanokv` alone: the main job, here on a tiny model and a short text."""

import pytest
from tiny_chat import write_model

import nanokv.demo
import weights.get
from nanokv.__main__ import main


@pytest.fixture
def told(tmp_path, monkeypatch, capsys):
    """The lines that the main job prints, run in an empty folder."""
    (tmp_path / "text.txt").write_text("The code of the instrument room is 4417. " * 12)
    folder = write_model(tmp_path / "model", max_position_embeddings=2048)
    monkeypatch.setattr(nanokv.demo, "TEXT", tmp_path / "text.txt")
    monkeypatch.setattr(weights.get, "ensure_default", lambda: folder)
    monkeypatch.chdir(tmp_path)
    assert main([]) == 0
    return capsys.readouterr().out.splitlines()


def test_the_main_job_shows_the_question_and_a_row_for_every_method(told):
    assert any(nanokv.demo.QUESTION in line for line in told)
    for method in nanokv.demo.METHODS:
        assert sum(line.startswith(method + " ") for line in told) == 1


def test_under_eviction_fewer_rows_are_held_than_with_the_full_cache(told):
    table = [line.split() for line in told if line.startswith(nanokv.demo.METHODS)]
    rows = {name: int(held) for name, held, *_ in table}
    full = rows.pop("full")
    assert len(rows) == 4 and all(held < full // 2 for held in rows.values())


def test_the_main_job_leaves_a_page_behind(told, tmp_path):
    assert "</html>" in (tmp_path / "trace.html").read_text(encoding="utf-8")
    assert "trace.html" in told[-1]
