"""`python -m eval.step_refresh` stops just above the refresh, offline, and `s` enters it."""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_pdb_stops_on_the_line_above_and_one_step_enters_refresh():
    run = subprocess.run(
        [sys.executable, "-m", "eval.step_refresh"],
        input="s\nw\nc\n",
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=120,
    )
    assert "-> done = refresh(" in run.stdout
    assert "evict.py" in run.stdout and "def refresh(" in run.stdout
    assert "kept    [" in run.stdout


def test_it_keeps_eight_of_twenty_rows():
    run = subprocess.run(
        [sys.executable, "-m", "eval.step_refresh"], input="c\n", capture_output=True, text=True, cwd=ROOT, timeout=120
    )
    held, kept = (json.loads(re.search(rf"{name} +(\[.*\])", run.stdout)[1]) for name in ("held", "kept"))
    assert held == list(range(20)) and len(kept) == 8 and kept[-1] == 19 and set(kept) <= set(held)
