"""The causal pass: chunks, evicted buffers against hidden rows, the model's own window, ids and counts."""

import pytest
import torch
from naive import Reader

from nanokv import UserError
from nanokv.buffer import new_buffer, view
from nanokv.compact import compact
from nanokv.generate import generate
from nanokv.load import random_weights, tiny_config
from nanokv.masks import causal, sliding_window
from nanokv.passes import causal_pass

IDS = torch.randint(97, (1, 24), generator=torch.Generator().manual_seed(5))
TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 0.06, torch.float16: 0.01}
FAMILIES = {
    "plain": {},
    "qwen2": {"family": "qwen2", "qkv_bias": True},
    "qwen3": {"family": "qwen3", "qk_norm": True},
    "window": {"windows": (6, None, 9)},
}


def read(weights, cfg, kv, ids, chunks, mask=causal):
    """x [t e] of ids [1 t] read in pieces of these sizes."""
    return torch.cat([causal_pass(weights, cfg, kv, piece, mask)[0] for piece in ids.split(chunks, dim=1)])


def hiding(evicted):
    """causal, with evicted[layer] [h s] hidden by position. The pass asks layer after layer while kv.shared is off."""
    asked = []

    def mask(q_pos, k_pos):
        hidden = evicted[len(asked) % len(evicted)]
        asked.append(1)
        hidden = torch.nn.functional.pad(hidden, (0, k_pos.shape[-1] - hidden.shape[-1]))
        return causal(q_pos, k_pos) & ~hidden[None, :, None]

    return mask


@pytest.mark.parametrize("family", FAMILIES)
def test_the_pass_equals_a_naive_reader_token_by_token(family):
    cfg = tiny_config(**{k: v for k, v in FAMILIES[family].items() if k != "windows"})
    weights = random_weights(cfg)
    reader, kv = Reader(weights, cfg), new_buffer(cfg, 24)
    expected = torch.stack([reader.feed(token) for token in IDS[0, :12].tolist()])
    torch.testing.assert_close(read(weights, cfg, kv, IDS[:, :12], [12]).double(), expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_one_by_one_and_chunked_equal_one_pass(family, dtype):
    cfg = tiny_config(**FAMILIES[family])
    weights = random_weights(cfg, dtype=dtype)
    whole = read(weights, cfg, new_buffer(cfg, 24, dtype), IDS, [24])
    for chunks in ([1] * 24, [7, 1, 11, 5]):
        pieces = read(weights, cfg, new_buffer(cfg, 4, dtype), IDS, chunks)
        torch.testing.assert_close(pieces, whole, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize("chunks", [[1, 1], [2]])
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_ragged_compacted_buffer_equals_the_full_one_with_the_same_rows_hidden(family, dtype, chunks):
    cfg = tiny_config(**FAMILIES[family])
    weights = random_weights(cfg, dtype=dtype)
    full, dropped = new_buffer(cfg, 32, dtype), new_buffer(cfg, 32, dtype)
    for kv in (full, dropped):
        read(weights, cfg, kv, IDS[:, :18], [18])
        kv.shared = False
    evicted = torch.rand(3, 2, 18, generator=torch.Generator().manual_seed(2)) < 0.6
    for layer in range(3):
        compact(dropped, layer, ~evicted[layer][None], room=1)
    assert len({int((~evicted[layer][h]).sum()) for layer in range(3) for h in range(2)}) > 2  # other numbers of rows
    expected = read(weights, cfg, full, IDS[:, 18:20], chunks, hiding(list(evicted)))
    found = read(weights, cfg, dropped, IDS[:, 18:20], chunks)
    torch.testing.assert_close(found, expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


def test_a_hook_that_looks_at_uneven_heads_changes_nothing_they_read():
    cfg, probs = tiny_config(), []
    weights, out = random_weights(cfg), []
    for hooks in (None, {"probs": lambda layer, p: probs.append(p)}):
        kv = new_buffer(cfg, 32)
        read(weights, cfg, kv, IDS[:, :8], [8])
        for layer in range(3):
            compact(kv, layer, torch.tensor([[[i > 1 for i in range(8)], [i > 4 for i in range(8)]]]), room=1)
        kv.shared = False
        out.append(causal_pass(weights, cfg, kv, IDS[:, 8:9], hooks=hooks))
    torch.testing.assert_close(out[0], out[1])
    assert [(p > 0).sum(dim=-1)[0, :, 0, 0].tolist() for p in probs] == [[7, 4]] * 3


def test_evicting_rows_does_change_what_comes_next():
    cfg = tiny_config()
    weights = random_weights(cfg)
    kept, dropped = new_buffer(cfg, 32), new_buffer(cfg, 32)
    for kv in (kept, dropped):
        read(weights, cfg, kv, IDS[:, :18], [18])
    for layer in range(3):
        compact(dropped, layer, torch.arange(18)[None, None] > 9)
    a, b = (read(weights, cfg, kv, IDS[:, 18:19], [1]) for kv in (kept, dropped))
    assert (a - b).abs().max() > 0.1


@pytest.mark.parametrize("ragged", [False, True])
def test_the_model_s_window_counts_original_positions_after_an_eviction(ragged):
    """Rows 0 12 13 held, w 4: the token at 15 sees 12 13 and 14, 15, but not 0, however near it lies in the buffer."""
    cfg, probs = tiny_config(windows=(4,)), []
    weights, kv = random_weights(cfg), new_buffer(cfg, 24)
    read(weights, cfg, kv, IDS[:, :14], [14])
    keep = torch.zeros(1, 2 if ragged else 1, 14, dtype=torch.bool)
    keep[0, :, [0, 12, 13]] = True
    keep[0, -1, 0] = not ragged
    for layer in range(3):
        compact(kv, layer, keep, room=2)
    kv.shared = not ragged
    causal_pass(weights, cfg, kv, IDS[:, 14:16], hooks={"probs": lambda layer, p: probs.append(p)})
    for p in probs:
        seen = (p[0, 0, 0] > 0).int().tolist()
        assert seen == [[0, 1, 1, 1, 0], [0, 1, 1, 1, 1]]  # slots 0 12 13 14 15


def test_the_next_position_is_the_number_seen_and_kept_keys_stay_as_they_were():
    """40 seen, 8 kept: the next token is rotated for position 40, and q k of kept keys is what it was."""
    cfg = tiny_config(n_layer=1)
    weights = random_weights(cfg)
    ids = torch.arange(41)[None] % 97
    scores, held = [], []
    for evict in (False, True):
        kv = new_buffer(cfg, 48)
        read(weights, cfg, kv, ids[:, :40], [40])
        if evict:
            compact(kv, 0, torch.arange(40)[None, None] % 5 == 2, room=1)
        causal_pass(weights, cfg, kv, ids[:, 40:], hooks={"scores": lambda layer, s: scores.append(s)})
        held.append(view(kv, 0))
    assert held[1][2].tolist() == [[[2, 7, 12, 17, 22, 27, 32, 37, 40]]]
    slots = [*range(2, 40, 5), 40]
    assert torch.equal(held[1][0], held[0][0][:, :, slots])
    torch.testing.assert_close(scores[1], scores[0][..., slots])


def test_a_mask_of_one_s_own_is_used_in_every_layer():
    cfg, probs = tiny_config(), []
    causal_pass(
        random_weights(cfg),
        cfg,
        new_buffer(cfg, 8),
        IDS[:, :6],
        mask=sliding_window(2),
        hooks={"probs": lambda layer, p: probs.append(p)},
    )
    assert [(p[0, 0, 0] > 0).sum(dim=-1).tolist() for p in probs] == [[1, 2, 2, 2, 2, 2]] * 3


def test_generate_refuses_prompts_of_unequal_length_by_name():
    cfg = tiny_config()
    with pytest.raises(UserError, match="2 prompts at once: one prompt a run"):
        generate(random_weights(cfg), cfg, [[1, 2], [3]])


def test_several_prompts_at_once_are_refused_by_name():
    cfg = tiny_config()
    with pytest.raises(AssertionError, match="2 prompts at once: one prompt a run"):
        causal_pass(random_weights(cfg), cfg, new_buffer(cfg, 8), IDS.reshape(2, 12))
