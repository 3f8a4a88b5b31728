"""Fixtures that several test files share."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # a bare `pytest` finds the packages too


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """The folder of SmolLM2-135M-Instruct in this checkout; the test is skipped where it has not been fetched."""
    folder = ROOT / "weights" / "SmolLM2-135M-Instruct"
    if not all((folder / name).is_file() for name in ("config.json", "model.safetensors", "tokenizer.json")):
        pytest.skip("SmolLM2-135M-Instruct is not here: run python -m weights.get")
    return folder
