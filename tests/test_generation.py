"""Generation: where it stops, what it returns, and that the cache changes nothing."""

import pytest
import torch
from tiny_chat import write_model

from nanokv import UserError
from nanokv.buffer import new_buffer
from nanokv.config import read_config
from nanokv.evict import Plan
from nanokv.generate import generate
from nanokv.load import random_weights, tiny_config
from nanokv.passes import causal_pass, unembed
from nanokv.scores import recency

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]


@pytest.fixture(scope="module")
def model():
    cfg = tiny_config()
    return random_weights(cfg), cfg


def whole(weights, cfg, ids) -> torch.Tensor:
    """Logits [v] behind ids, all of them read anew."""
    kv = new_buffer(cfg, rows=len(ids))
    return unembed(weights, causal_pass(weights, cfg, kv, torch.tensor([ids])))[0, -1]


def without_cache(weights, cfg, ids, n: int):
    """(greedy tokens, the logits [v] each came from), the whole text read anew for every token."""
    tokens, logits = [], []
    for _ in range(n):
        logits.append(whole(weights, cfg, ids + tokens))
        tokens.append(int(logits[-1].argmax()))
    return tokens, torch.stack(logits)


@pytest.fixture(scope="module")
def answer(model):
    """Ten greedy tokens; the third differs from the two before it, so that stopping there is stopping at the third."""
    tokens, _ = without_cache(*model, PROMPT, 10)
    assert tokens[2] not in tokens[:2]
    return tokens


def spy(logits_seen: list):
    def pick(logits, rng=None):
        logits_seen.append(logits)
        return int(logits.argmax())

    return pick


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3", "mistral"])
def test_logits_with_and_without_cache_agree_to_1e_5(family):
    cfg = tiny_config(family=family, qkv_bias=family == "qwen2", qk_norm=family == "qwen3", windows=(None, 4))
    weights, seen = random_weights(cfg), []
    run = generate(weights, cfg, PROMPT, max_new_tokens=12, pick=spy(seen))
    tokens, logits = without_cache(weights, cfg, PROMPT, 12)
    torch.testing.assert_close(torch.stack(seen), logits, rtol=0, atol=1e-5)
    assert run.output_ids == tokens


@pytest.mark.parametrize("n", [0, 1, 5])
def test_max_new_tokens_is_how_many_tokens_come_and_the_prompt_is_not_among_them(model, answer, n):
    run = generate(*model, PROMPT, max_new_tokens=n)
    assert run.output_ids == answer[:n]
    assert (run.prompt_ids, run.stop) == (PROMPT, "max_new_tokens")


def test_a_negative_max_new_tokens_is_refused(model):
    with pytest.raises(UserError, match="--max-new-tokens must be at least 0, not -1"):
        generate(*model, PROMPT, max_new_tokens=-1)


def test_a_stop_token_ends_the_answer_and_is_not_in_it(model, answer):
    run = generate(*model, PROMPT, max_new_tokens=10, stop_ids=[answer[2]])
    assert (run.output_ids, run.stop) == (answer[:2], "eos")


def test_the_first_of_several_stop_tokens_ends_the_answer(model, answer):
    run = generate(*model, PROMPT, max_new_tokens=10, stop_ids=[answer[7], answer[2]])
    assert (run.output_ids, run.stop) == (answer[:2], "eos")


def test_a_stop_token_at_once_leaves_an_empty_answer(model, answer):
    run = generate(*model, PROMPT, max_new_tokens=10, stop_ids=[answer[0]])
    assert (run.output_ids, run.stop) == ([], "eos")


def test_stop_tokens_of_the_prompt_end_nothing(model, answer):
    harmless = sorted(set(PROMPT) - set(answer))
    assert generate(*model, PROMPT, max_new_tokens=10, stop_ids=harmless).output_ids == answer


@pytest.mark.parametrize(
    ("own", "generation", "ids"),
    [(7, None, (7,)), ([7, 8], None, (7, 8)), (7, 9, (9,)), (7, [9, 2], (9, 2)), (None, None, ()), (None, 5, (5,))],
)
def test_stop_ids_come_from_generation_config_when_present_else_from_config(tmp_path, own, generation, ids):
    folder = write_model(tmp_path, eos=own)
    if generation is not None:
        (folder / "generation_config.json").write_text(f'{{"eos_token_id": {generation}}}')
    assert read_config(folder).eos_ids == ids


def test_a_generation_config_without_stop_ids_leaves_configs(tmp_path):
    folder = write_model(tmp_path, eos=7)
    (folder / "generation_config.json").write_text('{"temperature": 0.6}')
    assert read_config(folder).eos_ids == (7,)


def test_the_end_of_the_models_positions_is_a_stop_of_its_own():
    cfg = tiny_config(n_positions=12)
    run = generate(random_weights(cfg), cfg, PROMPT, max_new_tokens=50)
    assert (run.stop, run.kv.n_seen, len(run.output_ids)) == ("context", 12, 5)  # the last token is never read


def test_eviction_goes_on_past_the_models_positions():
    cfg = tiny_config(n_positions=12)
    run = generate(random_weights(cfg), cfg, PROMPT, Plan(recency, budget=6, every=2), max_new_tokens=20)
    assert (run.stop, len(run.output_ids)) == ("max_new_tokens", 20)


def test_tokens_are_reported_as_they_come(model, answer):
    heard = []
    generate(*model, PROMPT, max_new_tokens=4, on_token=heard.append)
    assert heard == answer[:4]


def test_only_ids_that_the_tokenizer_has_are_chosen(model):
    run = generate(*model, PROMPT, max_new_tokens=10, n_ids=5)
    assert max(run.output_ids) < 5 and len(run.output_ids) == 10


def test_nan_logits_stop_the_run_with_an_error():
    cfg = tiny_config()
    weights = random_weights(cfg)
    weights.norm[0] = torch.nan
    with pytest.raises(UserError, match="logits are NaN"):
        generate(weights, cfg, PROMPT, max_new_tokens=3)


@pytest.mark.parametrize("ids", [[], [97], [-1]])
def test_an_empty_prompt_or_an_id_outside_the_vocabulary_is_refused(model, ids):
    with pytest.raises(UserError, match="prompt"):
        generate(*model, ids)
