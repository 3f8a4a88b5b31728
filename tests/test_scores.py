"""The simpler scores against naive loops: recency, released proxies, controls, plain surprisal and its span."""

import math

import pytest
import torch
from naive import Reader, logits_of

from nanokv import UserError
from nanokv.buffer import new_buffer, note, notes, view
from nanokv.compact import compact
from nanokv.evict import Protection, Seen
from nanokv.generate import generate
from nanokv.load import random_weights, tiny_config
from nanokv.methods import find
from nanokv.options import build
from nanokv.passes import causal_pass
from nanokv.released import h2o_released, importance_released
from nanokv.scores import (
    causal_surprise,
    mean_over_span,
    observe_causal_surprise,
    random,
    recency,
    streaming_llm,
    unigram,
    watch_luck,
)

CFG = tiny_config()
WEIGHTS = random_weights(CFG)
IDS = torch.randint(97, (1, 24), generator=torch.Generator().manual_seed(9))


def read(ids, kv=None):
    kv = kv or new_buffer(CFG, 32)
    causal_pass(WEIGHTS, CFG, kv, ids)
    return kv


def drop(kv, gone):
    """Evict those positions in every layer and head."""
    keep = torch.tensor([[[p not in gone for p in view(kv, 0)[2][0, 0].tolist()]]])
    for layer in range(CFG.n_layer):
        compact(kv, layer, keep, room=8)


def test_an_option_that_cannot_be_is_refused_by_name():
    kv = read(IDS[:, :3])
    with pytest.raises(UserError, match="positions is original or cache, not 'kept'"):
        streaming_llm(WEIGHTS, CFG, kv, None, positions="kept")
    with pytest.raises(UserError, match="span must be at least 1, not 0"):
        mean_over_span(torch.zeros(1, 1, 3), torch.arange(3)[None, None], 0)


@pytest.mark.parametrize("score", [recency, streaming_llm])
def test_recency_is_the_position(score):
    kv = read(IDS[:, :6])
    drop(kv, (1, 2))
    assert score(WEIGHTS, CFG, kv, None).tolist() == [[[0, 3, 4, 5]]]


def test_unigram_keeps_words_rare_among_those_held():
    kv = read(torch.tensor([[5, 6, 5, 7, 5, 6]]))
    assert unigram(WEIGHTS, CFG, kv, None).tolist() == [[[-3, -2, -3, -1, -3, -2]]]
    drop(kv, (0, 2))
    assert unigram(WEIGHTS, CFG, kv, None).tolist() == [[[-2, -1, -1, -2]]]


def test_random_gives_old_and_new_tokens_the_same_chance_to_survive_many_refreshes():
    """96 tokens, 12 refreshes to 16 rows, 150 seeds: each third of the text holds a third of what is left."""
    cfg = tiny_config(n_layer=1, n_head=1, n_kv_head=1)
    weights, third = random_weights(cfg), [0, 0, 0]
    for seed in range(150):
        plan, _ = build(find("random"), 16, 8, protect="none", settings={"seed": seed})
        kv = generate(weights, cfg, [1] * 96, plan, 0).kv
        for p in view(kv, 0)[2].flatten().tolist():
            third[p // 32] += 1
    assert sum(third) == 150 * 16
    assert all(abs(n - 800) < 4 * math.sqrt(2400 * 2 / 9) for n in third)  # four standard deviations


def test_a_token_s_luck_stays_with_it_through_an_eviction():
    kv = new_buffer(CFG, 32)
    hooks = watch_luck(WEIGHTS, CFG, kv, None, seed=3)
    causal_pass(WEIGHTS, CFG, kv, IDS[:, :10], hooks=hooks)
    first = random(WEIGHTS, CFG, kv, None, seed=3).clone()
    drop(kv, (0, 4))
    causal_pass(WEIGHTS, CFG, kv, IDS[:, 10:12], hooks=hooks)
    luck = random(WEIGHTS, CFG, kv, None, seed=3)
    assert luck[0, 0, :8].tolist() == first[0, 0, [1, 2, 3, 5, 6, 7, 8, 9]].tolist() and luck.shape[2] == 10


def test_plain_surprisal_is_minus_log_p_in_nats_whatever_the_chunks():
    """-log p(x_i | x_<i) of a naive reader; the first token gets log v."""
    reader, expected = Reader(WEIGHTS, CFG), [math.log(97)]
    for now, then in zip(IDS[0, :11].tolist(), IDS[0, 1:12].tolist()):
        logits = logits_of(WEIGHTS, reader.feed(now)).tolist()
        expected.append(math.log(sum(math.exp(x) for x in logits)) - logits[then])
    for chunks in ([12], [1] * 12, [5, 1, 6]):
        kv, seen = new_buffer(CFG, 4), Seen(8, Protection(), 12)
        for piece in IDS[:, :12].split(chunks, dim=1):
            x = causal_pass(WEIGHTS, CFG, kv, piece)
            observe_causal_surprise(WEIGHTS, CFG, kv, seen, x, rows=4)
        found = causal_surprise(WEIGHTS, CFG, kv, seen, span=1)
        torch.testing.assert_close(found[0, 0].double(), torch.tensor(expected).double(), rtol=0, atol=1e-4)


@pytest.mark.parametrize("span", [1, 2, 3, 6, 17])
def test_a_span_is_the_mean_over_held_positions_around_each(span):
    """Held 0 1 4 5 6 9 11, one of them infinite: it neither gives nor takes. An even span reaches one further ahead."""
    pos, score = [0, 1, 4, 5, 6, 9, 11], [3.0, 1.0, 4.0, torch.inf, 5.0, 9.0, 2.0]
    expected = []
    for p, s in zip(pos, score):
        inside = range(p - (span - 1) // 2, p + span // 2 + 1)
        near = [x for q, x in zip(pos, score) if q in inside and x != torch.inf]
        expected.append(s if s == torch.inf else sum(near) / len(near))
    found = mean_over_span(torch.tensor([[score]]), torch.tensor([[pos]]), span)
    assert found[0, 0].tolist() == pytest.approx(expected)


def released_attention(kv, lead, r):
    """Mean over layers and kv heads of what the newest r cached keys, as queries, give each body row; no mask."""
    n = view(kv, 0)[0].shape[2] - lead
    received = [0.0] * n
    for layer in range(CFG.n_layer):
        for head in view(kv, layer)[0][0].double():
            body = head[lead:]
            for query in body[n - r :]:
                e = [math.exp(float(query @ key) / math.sqrt(CFG.d_head)) for key in body]
                received = [a + x / sum(e) / (CFG.n_layer * CFG.n_kv_head) for a, x in zip(received, e)]
    return received


def test_h2o_released_adds_up_over_refreshes_and_moves_with_its_rows():
    seen = Seen(10, Protection(sinks=2), 24)  # J_b = 8, so the newest 4 keys stand in for queries
    kv = read(IDS[:, :14])
    first = released_attention(kv, 2, 4)
    found = h2o_released(WEIGHTS, CFG, kv, seen)
    torch.testing.assert_close(found[0, 0], torch.tensor([0.0, 0.0, *first]))
    drop(kv, (3, 5, 8, 11))
    read(IDS[:, 14:18], kv)
    carried = [f for p, f in zip(range(2, 14), first) if p not in (3, 5, 8, 11)] + [0.0] * 4
    second = [a + b for a, b in zip(carried, released_attention(kv, 2, 4))]
    found = h2o_released(WEIGHTS, CFG, kv, seen)
    torch.testing.assert_close(found[0, 0], torch.tensor([0.0, 0.0, *second]))
    assert torch.equal(notes(kv, 0, "F"), found)


def test_h2o_released_uses_all_rows_as_queries_while_there_are_few():
    kv = read(IDS[:, :3])
    found = h2o_released(WEIGHTS, CFG, kv, Seen(20, Protection(), 3))
    torch.testing.assert_close(found[0, 0], torch.tensor(released_attention(kv, 0, 3)))


def test_importance_released_is_the_last_layer_s_newest_key_times_every_key_over_the_largest_entry():
    kv = read(IDS[:, :14])
    k = view(kv, 2)[0][0].double()
    largest = max(abs(float(x)) for x in k[:, 2:].flatten())
    expected = [sum(float(h[13] @ h[j]) / largest**2 for h in k) / 2 for j in range(14)]
    found = importance_released(WEIGHTS, CFG, kv, Seen(10, Protection(sinks=2), 14))
    torch.testing.assert_close(found[0, 0, 2:], torch.tensor(expected[2:]))


def test_a_method_s_note_of_its_own_is_there_for_every_row_or_missing_altogether():
    kv = read(IDS[:, :4])
    assert notes(kv, 0, "mine") is None
    note(kv, 0, "mine", torch.zeros(1, 1, 4))
    assert notes(kv, 0, "mine").shape == (1, 1, 4)


def test_the_mean_over_a_span_is_as_exact_at_the_end_of_a_long_text():
    """4,000 scores of 10,000 and a bit: running sums in float32 would be off by whole units."""
    score = torch.tensor([[[10_000.0 + i % 7 for i in range(4000)]]])
    found = mean_over_span(score, torch.arange(4000)[None, None], 3)[0, 0]
    assert found[3990].item() == pytest.approx(10_000 + (3989 % 7 + 3990 % 7 + 3991 % 7) / 3, abs=2e-3)
