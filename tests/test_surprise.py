"""Counter-causal surprise: every option against naive loops over tokens and heads, after an eviction."""

import pytest
import torch
from naive_surprise import CFG, SEEN, WEIGHTS, naive_surprise, noted

from nanokv import surprise as module
from nanokv.surprise import surprise, watch_resid

OPTIONS = [
    {},
    {"value": "logprob"},
    {"start": "blind"},
    {"start": "blind", "read": "next", "value": "logprob"},
    {"read": "next"},
    {"min_gap": 1},
    {"min_gap": 4},
    {"window": 3},
    {"window": 1},
    {"min_gap": 2, "window": 4},
    {"span": 3},
    {"span": 4},
    {"span": 5, "min_gap": 1, "value": "logprob"},
    {"mlp": False},
    {"ids": "released"},
    {"ids": "released", "read": "next"},
]


def check_equal(found, expected: dict):
    assert found.dtype == torch.float32 and found.shape == (1, 1, len(expected))
    expected = torch.tensor([*expected.values()], dtype=torch.float64)
    torch.testing.assert_close(found[0, 0].double(), expected, rtol=0, atol=2e-4)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_score_equals_its_definition_in_naive_loops(options):
    kv, reader = noted()
    check_equal(surprise(WEIGHTS, CFG, kv, SEEN, **options), naive_surprise(reader, **options))


@pytest.mark.parametrize("options", [{"last": 1, "mlp": False}, {"last": 2}, {"last": 1, "read": "next"}], ids=str)
def test_the_last_layers_run_from_their_recorded_input(options):
    kv, reader = noted(options["last"])
    check_equal(surprise(WEIGHTS, CFG, kv, SEEN, **options), naive_surprise(reader, **options))


def test_last_equal_to_the_number_of_layers_is_the_full_pass():
    kv, _ = noted()
    assert watch_resid(WEIGHTS, CFG, kv, SEEN, last=3) == {}
    assert torch.equal(surprise(WEIGHTS, CFG, kv, SEEN, last=3), surprise(WEIGHTS, CFG, kv, SEEN))


def test_a_mask_of_one_s_own_says_what_the_pass_sees():
    kv, reader = noted()

    def not_the_next(q_pos, k_pos):
        return k_pos[:, :, None, :] > q_pos[:, None, :, None] + 1

    check_equal(surprise(WEIGHTS, CFG, kv, SEEN, mask=not_the_next), naive_surprise(reader, min_gap=1))


@pytest.mark.parametrize("value", ["logit", "logprob"])
def test_reading_a_few_rows_at_a_time_changes_no_score(monkeypatch, value):
    kv, _ = noted()
    whole = surprise(WEIGHTS, CFG, kv, SEEN, value=value)
    monkeypatch.setattr(module, "ROWS", 5)
    monkeypatch.setattr(module, "LOGPROB_ROWS", 3)
    torch.testing.assert_close(surprise(WEIGHTS, CFG, kv, SEEN, value=value), whole, rtol=0, atol=1e-5)
