"""StreamingLLM: sinks and the newest rows; cache positions against a naive model that rotates at reading time."""

import pytest
import torch
from naive import Reader, logits_of

from nanokv.buffer import view
from nanokv.generate import generate
from nanokv.load import random_weights, tiny_config
from nanokv.methods import find
from nanokv.options import build

CFG = tiny_config()
WEIGHTS = random_weights(CFG)
PROMPT = torch.randint(97, (30,), generator=torch.Generator().manual_seed(11)).tolist()


def run(every=None, n_prompt=30, budget=9, new=14, dtype=torch.float32, **settings):
    plan, _ = build(find("streaming_llm"), budget, every, protect="sinks:2", settings=settings)
    weights = WEIGHTS if dtype == torch.float32 else random_weights(CFG, dtype=dtype)
    return generate(weights, CFG, PROMPT[:n_prompt], plan, new)


def naive_run(every: int, cache_positions: bool, budget=9, new=14):
    """Output ids and last logits of a reader that stores unrotated keys, and drops the middle every `every` tokens."""
    reader, ids, logits = Reader(WEIGHTS, CFG, cache_positions), list(PROMPT), None
    while len(ids) < len(PROMPT) + new:
        logits = logits_of(WEIGHTS, reader.feed(ids[reader.n_seen]))
        held = [row[0] for row in reader.rows[0]]
        if reader.n_seen % every == 0 and len(held) > budget:
            reader.keep({*held[:2], *held[-(budget - 2) :]})
        if reader.n_seen == len(ids):
            ids.append(int(logits.argmax()))
    return ids[len(PROMPT) :], logits


def test_the_example_8_seen_sink_2_budget_5_keeps_0_1_5_6_7():
    done = run(every=8, n_prompt=8, budget=5, new=0)
    assert view(done.kv, 0)[2].tolist() == [[[0, 1, 5, 6, 7]]]


def test_cache_positions_turn_the_example_s_keys_to_the_distances_of_0_to_4():
    """Keys of rows 5 6 7 stay as they are; those of 0 and 1 turn by the 3 rows that left between."""
    original, cache = (run(every=8, n_prompt=8, budget=5, new=0, positions=p) for p in ("original", "cache"))
    theta = torch.tensor([10000.0 ** (-2 * i / 8) for i in range(4)], dtype=torch.float64)
    for layer in range(3):
        before, after = (view(r.kv, layer)[0][0].double() for r in (original, cache))
        assert torch.equal(before[:, 2:], after[:, 2:])
        turned = torch.complex(before[:, :2, :4], before[:, :2, 4:]) * torch.exp(3j * theta)
        torch.testing.assert_close(after[:, :2], torch.cat((turned.real, turned.imag), dim=-1), rtol=0, atol=1e-5)


@pytest.mark.parametrize("every", [1, 4])
@pytest.mark.parametrize("positions", ["cache", "original"])
def test_a_run_equals_a_naive_model_that_stores_unrotated_keys(positions, every):
    done = run(every=every, positions=positions)
    ids, logits = naive_run(every, positions == "cache")
    assert done.output_ids == ids
    assert len(done.refreshes) == (34 if every == 1 else 8)
    torch.testing.assert_close(done.seen.logits.double(), logits, rtol=0, atol=2e-3)


def test_cache_and_original_positions_are_not_the_same_model():
    a, b = (run(every=1, positions=p).seen.logits for p in ("cache", "original"))
    assert (a - b).abs().max() > 0.01
