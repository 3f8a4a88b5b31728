"""What each option of counter-causal surprise does to a score, and what cannot be asked of it."""

import copy

import pytest
import torch
from naive_surprise import CFG, GONE, IDS, SEEN, WEIGHTS, noted, read_both

from nanokv import UserError
from nanokv.buffer import new_buffer, view
from nanokv.evict import Protection, Seen
from nanokv.load import random_weights, tiny_config
from nanokv.passes import causal_pass, counter_causal_pass
from nanokv.surprise import surprise


def test_without_released_bookkeeping_each_row_belongs_to_its_own_token():
    kv, _ = noted()
    paper = surprise(WEIGHTS, CFG, kv, SEEN, ids="paper")
    assert torch.equal(surprise(WEIGHTS, CFG, kv, SEEN), paper)
    released = surprise(WEIGHTS, CFG, kv, Seen(8, Protection(), 10, released_loop=True))
    prompt = view(kv, 0)[2][0, 0] < 10
    assert torch.equal(paper[0, 0, prompt], released[0, 0, prompt])
    assert (paper[0, 0, ~prompt] != released[0, 0, ~prompt]).sum() == 5  # of 10..15 all but the newest, which is inf


def swapped(kv, slot: int, **options):
    """How much each score moves when the embedding row of that slot's token is swapped with that of a token unseen."""
    token = IDS[0, view(kv, 0)[2][0, 0, slot]].item()
    other = next(i for i in range(97) if i not in IDS[0].tolist())
    weights = random_weights(CFG)
    weights.embed[[token, other]] = weights.embed[[other, token]]
    before, after = surprise(WEIGHTS, CFG, kv, SEEN, **options), surprise(weights, CFG, kv, SEEN, **options)
    moved = torch.where(before == after, 0, (before - after).abs())[0, 0]
    return [i for i, x in enumerate(moved.tolist()) if x > 1e-3]


def test_a_token_s_embedding_moves_its_own_score_only_and_not_at_all_when_blind():
    kv, _ = noted()
    assert len(set(IDS[0].tolist())) == 16
    assert swapped(kv, 6) == [6]
    assert swapped(kv, 6, start="blind") == []


def test_a_token_s_embedding_cannot_move_its_own_score_when_the_next_row_reads_it():
    kv, _ = noted()
    assert swapped(kv, 6, read="next") == [5]


def test_scores_of_a_bfloat16_model_are_float32_dot_products():
    weights = random_weights(CFG, dtype=torch.bfloat16)
    kv = new_buffer(CFG, 16, torch.bfloat16)
    causal_pass(weights, CFG, kv, IDS)
    x = counter_causal_pass(weights, CFG, kv, weights.embed[IDS], torch.arange(16))[0].double()
    expected = -(x * weights.unembed[IDS[0]].double()).sum(dim=-1)
    found = surprise(weights, CFG, kv, SEEN)[0, 0]
    assert found.dtype == torch.float32
    torch.testing.assert_close(found[:15].double(), expected[:15], rtol=1e-5, atol=1e-5)


def test_a_token_the_model_s_window_hides_all_future_from_gets_maximum_surprise():
    """w 3, held 0 3 4 6 7 9..15: the token at 0 sees nobody at distance 3; no score is NaN."""
    cfg = tiny_config(windows=(3,))
    weights = random_weights(cfg)
    kv, _ = read_both(cfg, weights, GONE)
    score = surprise(weights, cfg, kv, SEEN)[0, 0]
    assert view(kv, 0)[2][0, 0, score.isinf()].tolist() == [0, 15] and not score.isnan().any()
    kv, _ = read_both(tiny_config(windows=(3, None, 3)), weights, GONE)
    score = surprise(weights, tiny_config(windows=(3, None, 3)), kv, SEEN)[0, 0]
    assert view(kv, 0)[2][0, 0, score.isinf()].tolist() == [15]


@pytest.mark.parametrize(
    "options, words",
    [
        ({"value": "prob"}, "value is logit or logprob, not 'prob'"),
        ({"start": "x"}, "start is token or blind"),
        ({"read": "last"}, "read is self or next"),
        ({"ids": "mine"}, "ids is paper or released"),
        ({"last": 4}, "from 1 to the 3 layers, not 4"),
        ({"last": 1, "start": "blind"}, "start=blind"),
        ({"min_gap": -1}, "min_gap -1"),
        ({"min_gap": 3, "window": 3}, "window 3"),
    ],
)
def test_an_option_that_cannot_be_is_refused_by_name(options, words):
    kv, _ = noted()
    with pytest.raises(UserError, match=words):
        surprise(WEIGHTS, CFG, kv, SEEN, **options)


def test_heads_that_hold_different_tokens_are_refused():
    kv = copy.copy(noted()[0])
    kv.shared = False
    with pytest.raises(UserError, match="same tokens in every layer and head"):
        surprise(WEIGHTS, CFG, kv, SEEN)
