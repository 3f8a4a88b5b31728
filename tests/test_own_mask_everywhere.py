"""A user's mask also rules what the scores and the lookahead see."""

import torch

from nanokv.generate import generate
from nanokv.load import random_weights, tiny_config
from nanokv.masks import sliding_window
from nanokv.methods import find
from nanokv.options import build

IDS = torch.randint(97, (60,), generator=torch.Generator().manual_seed(4)).tolist()


def run_under(name, mask, windows=(None,)):
    cfg = tiny_config(windows=windows)
    plan, _ = build(find(name), 40, once=True, settings={"window": 8} if name != "tova" else {})
    with torch.inference_mode():
        return generate(random_weights(cfg), cfg, IDS, plan, max_new_tokens=4, mask=mask)


def test_a_window_given_as_mask_keeps_the_same_rows_as_a_model_that_has_it():
    for name in ("snapkv", "tova", "lore_e", "laq"):
        given, own = run_under(name, sliding_window(20)), run_under(name, sliding_window(1000), windows=(20,))
        assert given.output_ids == own.output_ids
        for a, b in zip(given.refreshes[0].keep, own.refreshes[0].keep):
            assert torch.equal(a, b)


def test_a_lookahead_s_queries_see_through_the_given_mask_too():
    given = run_under("lore_e", sliding_window(20)).seen.report["lookahead"]
    free = run_under("lore_e", sliding_window(1000)).seen.report["lookahead"]
    own = run_under("lore_e", sliding_window(1000), windows=(20,)).seen.report["lookahead"]
    assert given == own and given["logp"] != free["logp"]
