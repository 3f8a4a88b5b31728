"""What a method with a lookahead adds to the trace."""

import pytest
import torch

from nanokv.generate import generate
from nanokv.load import random_weights, tiny_config
from nanokv.methods import find
from nanokv.options import build

KEYS = {"trajectories", "logp", "entropy", "c_bar", "H_bar", "D", "D_hat", "weights"}
BRANCHES = {"lore_e": 4, "lore_d": 4, "lore_uniform": 4, "lore_oracle": 1, "andpro_lookahead": 4, "laq": 1}


@pytest.mark.parametrize("name", BRANCHES)
def test_every_lookahead_reports_its_trajectories_and_their_numbers(name):
    cfg = tiny_config()
    ids = torch.randint(97, (80,), generator=torch.Generator().manual_seed(2)).tolist()
    with torch.inference_mode():
        run = generate(random_weights(cfg), cfg, ids, build(find(name), 48)[0], max_new_tokens=2)
    report = run.seen.report["lookahead"]
    assert set(report) == KEYS
    assert {len(report[key]) for key in KEYS} == {BRANCHES[name]}
    assert sum(report["weights"]) == pytest.approx(1)
    centred = [sum(lq + h for lq, h in zip(*two)) / len(two[0]) for two in zip(report["logp"], report["entropy"])]
    assert report["c_bar"] == pytest.approx(centred, abs=1e-6)


def test_a_window_only_lore_reports_none():
    cfg = tiny_config()
    with torch.inference_mode():
        run = generate(random_weights(cfg), cfg, list(range(80)), build(find("lore_window"), 48)[0], max_new_tokens=1)
    assert run.seen.report == {}
