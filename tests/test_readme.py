"""README.md: its python blocks run, its line count is true, its files exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_python_blocks_run_in_order(smollm2, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    blocks = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert len(blocks) == 2
    names = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    answer, peak_rows = capsys.readouterr().out.splitlines()[0].rsplit(" ", 1)
    assert answer.strip() and int(peak_rows) == 24 + 8
    pos = names["run"].refreshes[0].positions[0][0, 0]
    kept = pos[names["run"].refreshes[0].keep[0][0, 0]].tolist()
    assert kept == sorted(sorted(pos.tolist(), key=lambda p: (p if p % 2 == 0 else p - 10, p))[-24:])


def test_the_line_count_is_true_to_the_nearest_few_hundred():
    said = int(re.search(r"About ([\d,]+) lines of Python in `nanokv/`", README)[1].replace(",", ""))
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in (ROOT / "nanokv").glob("*.py"))
    assert abs(lines - said) <= 250


def test_every_python_file_and_picture_it_names_exists():
    named = re.findall(r"`(\w+\.py)`", README)
    assert len(named) > 20
    assert not [name for name in named if not (ROOT / "nanokv" / name).exists()]
    assert not [name for name in re.findall(r"\]\((eval/[\w.]+)\)", README) if not (ROOT / name).exists()]


def test_every_package_file_is_in_the_reading_order():
    files = {path.name for path in (ROOT / "nanokv").glob("*.py")} - {"__init__.py"}
    assert files - set(re.findall(r"`(\w+\.py)`", README)) == set()
