"""Picking a token: greedy without chance, nucleus never empty, broken logits never used."""

import pytest
import torch

from nanokv import UserError
from nanokv.arguments import parser
from nanokv.sample import greedy, nucleus, sampler

LOGITS = torch.tensor([0.5, 0.1, 0.3, 0.05, 0.05]).log()


def drawn(pick, logits=LOGITS, n=200) -> set:
    rng = torch.Generator().manual_seed(0)
    return {pick(logits, rng) for _ in range(n)}


def test_temperature_0_takes_the_largest_logit_and_touches_no_random_state():
    rng = torch.Generator().manual_seed(1)
    own, common = rng.get_state(), torch.get_rng_state()
    assert [sampler(temperature=0)(LOGITS, rng) for _ in range(5)] == [0] * 5
    assert torch.equal(own, rng.get_state()) and torch.equal(common, torch.get_rng_state())


def test_sampling_touches_no_random_state_but_its_own():
    common = torch.get_rng_state()
    drawn(sampler())
    assert torch.equal(common, torch.get_rng_state())


def test_the_same_seed_draws_the_same_tokens():
    one, other = (
        [pick(LOGITS, rng) for _ in range(30)]
        for pick, rng in ((sampler(), torch.Generator().manual_seed(5)) for _ in range(2))
    )
    assert one == other and len(set(one)) > 1


@pytest.mark.parametrize("top_p", [0, 0.01])
def test_the_smallest_top_p_keeps_the_likeliest_token(top_p):
    assert drawn(sampler(top_p=top_p)) == {0}


@pytest.mark.parametrize(("top_p", "kept"), [(0.4, {0}), (0.6, {0, 2}), (0.85, {0, 1, 2}), (1, {0, 1, 2, 3, 4})])
def test_top_p_keeps_the_smallest_set_that_holds_it(top_p, kept):
    probs = nucleus(LOGITS.exp(), top_p)
    assert set(probs.nonzero().flatten().tolist()) == kept
    assert probs.sum().item() == pytest.approx(1)


def test_top_p_1_keeps_even_what_rounding_puts_past_1():
    probs = torch.full((1000,), 0.002)  # twice too much, as a running sum of rounded numbers may be
    assert (nucleus(probs, 1.0) > 0).all()


def test_temperature_divides_the_logits():
    logits, counts = torch.tensor([0.0, 2.0]), [0, 0]
    rng = torch.Generator().manual_seed(0)
    for _ in range(4000):
        counts[sampler(temperature=2)(logits, rng)] += 1
    assert counts[1] / 4000 == pytest.approx(0.7311, abs=0.03)  # 1 / (1 + e^-1)


def test_a_tiny_temperature_is_greedy_and_not_an_overflow():
    assert drawn(sampler(temperature=2e-38), LOGITS * 1000, n=5) == {0}


@pytest.mark.parametrize("pick", [greedy, sampler(), sampler(top_p=0.5)])
@pytest.mark.parametrize("broken", [torch.nan, torch.inf])
def test_nan_or_infinite_logits_are_an_error(pick, broken):
    with pytest.raises(UserError, match="logits are NaN or infinite"):
        pick(torch.tensor([1.0, broken]), torch.Generator())


def test_a_forbidden_token_is_no_error_and_never_drawn():
    assert drawn(sampler(), torch.tensor([0.0, -torch.inf, 0.0])) == {0, 2}


@pytest.mark.parametrize("wrong", [{"temperature": -1}, {"temperature": float("nan")}, {"top_p": 1.1}, {"top_p": -0.1}])
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(UserError, match=next(iter(wrong))):
        sampler(**wrong)


def test_no_repetition_penalty_is_offered():
    with pytest.raises(UserError, match="unrecognized arguments: --repetition-penalty"):
        words = ["generate", "--model", "m", "--prompt", "p", "--method", "full"]
        parser().parse_args([*words, "--repetition-penalty", "1.2"])
