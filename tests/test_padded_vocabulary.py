"""A checkpoint's vocabulary may be padded beyond the tokenizer's: such an id has no text and is never emitted."""

import pytest
import torch

from nanokv.generate import generate
from nanokv.load import random_weights, tiny_config
from nanokv.sample import greedy, sampler

N_IDS = 80  # of 97


@pytest.fixture
def model():
    """A model whose padded rows outbid every real one."""
    cfg = tiny_config(n_vocab=97)
    weights = random_weights(cfg)
    weights.unembed[N_IDS:] = weights.unembed[:17] * 50
    return weights, cfg


def answer(model, pick, n_ids):
    rng = torch.Generator().manual_seed(0)
    return generate(*model, [5, 17, 40], max_new_tokens=60, pick=pick, rng=rng, n_ids=n_ids).output_ids


@pytest.mark.parametrize("pick", [greedy, sampler(1.0), sampler(8.0, 0.9)], ids=["greedy", "sampled", "hot"])
def test_no_id_that_the_tokenizer_lacks_is_emitted(model, pick):
    assert max(answer(model, pick, n_ids=None)) >= N_IDS  # this model would, left alone
    ids = answer(model, pick, n_ids=N_IDS)
    assert len(ids) == 60 and max(ids) < N_IDS


def test_the_last_id_of_the_tokenizer_may_be_emitted(model):
    weights, _ = model
    weights.unembed[N_IDS - 1] = weights.unembed[3] * 40
    weights.unembed[3] = -weights.unembed[N_IDS - 1]
    assert N_IDS - 1 in answer(model, sampler(8.0), n_ids=N_IDS)
