"""LORE-KV /E and /D on SmolLM2 against the numbers and rows of an independent implementation."""

import json
from pathlib import Path

import pytest
import torch

from nanokv.config import read_config
from nanokv.generate import generate
from nanokv.load import read_weights
from nanokv.methods import find
from nanokv.options import build

GOLDEN = Path(__file__).resolve().parent / "golden" / "lore_smollm2.json"


@pytest.mark.parametrize("which", ["e", "d"])
def test_smollm2_gives_the_numbers_and_rows_of_the_independent_implementation(smollm2, which):
    cfg, golden = read_config(smollm2), json.loads(GOLDEN.read_text(encoding="utf-8"))
    plan, _ = build(find(f"lore_{which}"), golden["budget"], settings={"lookahead": str(GOLDEN)})
    with torch.inference_mode():
        run = generate(read_weights(smollm2, cfg), cfg, golden["prompt_ids"], plan, 1)
    report = run.seen.report["lookahead"]
    for name in ("logp", "entropy", "c_bar", "H_bar", "D", "D_hat"):
        torch.testing.assert_close(torch.tensor(report[name]), torch.tensor(golden[name]), rtol=0, atol=1e-4)
    assert report["weights"] == pytest.approx(golden["weights"][which], abs=1e-4)
    kept = [[head.nonzero()[:, 0].tolist() for head in keep[0]] for keep in run.refreshes[0].keep]
    assert kept == golden["kept"][which]  # the slots of a prompt are its positions
