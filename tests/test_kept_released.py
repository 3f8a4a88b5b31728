"""The released counter-causal code's own kept sets, refresh by refresh (stored in golden/kept_smollm2.json)."""

import json
from pathlib import Path

import pytest
import torch

from nanokv.config import read_config
from nanokv.generate import generate
from nanokv.load import read_weights
from nanokv.methods import find
from nanokv.options import build

GOLDEN = json.loads((Path(__file__).parent / "golden" / "kept_smollm2.json").read_text(encoding="utf-8"))
METHODS = ["counter_causal", "counter_causal_fast", "sliding_window", "h2o_released", "importance_released"]


@pytest.fixture(scope="module")
def model(smollm2):
    cfg = read_config(smollm2)
    return read_weights(smollm2, cfg), cfg


@torch.inference_mode()
def run_of(model, name, new=70, **settings):
    """(kept positions after each refresh, with the n_seen it followed; output ids) of one run like the released one."""
    settings = {"partial": 1, **settings}
    plan, _ = build(find(name), GOLDEN["budget"], GOLDEN["every"], protect="sinks:8", settings=settings)
    run = generate(*model, GOLDEN["prompt_ids"], plan, new)
    kept = [(r.n_seen, r.positions[0][0, 0][r.keep[0][0, 0]].tolist()) for r in run.refreshes]
    return kept, run.output_ids


@pytest.mark.parametrize("name", METHODS)
def test_kept_sets_and_answer_equal_the_released_code_s(model, name):
    kept, output_ids = run_of(model, name)
    assert [positions for _, positions in kept] == GOLDEN["methods"][name]["kept"]
    assert output_ids == GOLDEN["methods"][name]["output_ids"]


def test_with_the_paper_s_pairing_prompt_sets_are_the_released_ones_and_later_sets_are_not(model):
    """The released loop pairs a generated row with the token after it, Algorithm 2 with its own (paired_ids)."""
    kept, _ = run_of(model, "counter_causal", new=6, ids="paper")
    assert [n_seen for n_seen, _ in kept] == [192, 256, 320, 384, 448, 512, 576, 640, 700, 704]
    same = [ours == theirs for (_, ours), theirs in zip(kept, GOLDEN["methods"]["counter_causal"]["kept"])]
    assert same == [True] * 9 + [False]  # the prompt has 700 tokens
