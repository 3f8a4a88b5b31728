"""Counter-causal surprise from its definition, in loops over tokens and heads; and one evicted buffer to try it on."""

import math
from functools import cache

import torch
from naive import Reader, logits_of, look_ahead

from nanokv.buffer import new_buffer
from nanokv.compact import compact
from nanokv.evict import Protection, Seen
from nanokv.load import random_weights, tiny_config
from nanokv.passes import causal_pass
from nanokv.surprise import watch_resid

IDS = torch.randint(97, (1, 16), generator=torch.Generator().manual_seed(7))
CFG = tiny_config()
WEIGHTS = random_weights(CFG)
GONE = (1, 2, 5, 8)
N_PROMPT = 10
SEEN = Seen(8, Protection(), N_PROMPT)


def read_both(cfg, weights, gone=(), hooks=None, kv=None):
    """IDS through buffer and naive reader: 12 tokens, then without the positions `gone`, then the last 4."""
    kv, reader = kv or new_buffer(cfg, 16), Reader(weights, cfg)
    causal_pass(weights, cfg, kv, IDS[:, :12], hooks=hooks)
    for token in IDS[0, :12].tolist():
        reader.feed(token)
    keep = torch.tensor([[[i not in gone for i in range(12)]]])
    for layer in range(cfg.n_layer):
        compact(kv, layer, keep, room=4)
    reader.keep({i for i in range(12) if i not in gone})
    causal_pass(weights, cfg, kv, IDS[:, 12:], hooks=hooks)
    for token in IDS[0, 12:].tolist():
        reader.feed(token)
    return kv, reader


@cache
def noted(last=None):
    """(buffer, naive reader) of `read_both`, the inputs of layer L - last noted beside its rows."""
    kv = new_buffer(CFG, 16)
    return read_both(CFG, WEIGHTS, GONE, watch_resid(WEIGHTS, CFG, kv, SEEN, last=last), kv)


def one_row(reader, i, token, start, layers, mlp, may_look):
    """Logits [v] at position i, whose stream starts from `token` (or the mean embedding, or the recorded input)."""
    embed = reader.weights.embed.double()
    x = embed[token] if layers[0] == 0 else reader.inputs[layers[0]][i]
    x = sum(embed) / len(embed) if start == "blind" else x
    return logits_of(reader.weights, look_ahead(reader, x, i, may_look, layers, mlp))


def naive_surprise(
    reader,
    value="logit",
    start="token",
    read="self",
    last=None,
    mlp=True,
    min_gap=0,
    window=math.inf,
    span=1,
    ids="paper",
):
    """The scores by position, from their definition."""
    held = [row[0] for row in reader.rows[0]]
    token_of = {i: IDS[0, i].item() for i in held}
    if ids == "released":
        token_of = {i: IDS[0, min(i + 1, 15) if i >= N_PROMPT else i].item() for i in held}
    score = {i: math.inf for i in held}

    def may_look(q, k):
        return min_gap < k - q <= window

    for n, i in enumerate(held):
        if not any(may_look(i, j) for j in held) or (n == 0 and read == "next"):
            continue
        logits = one_row(reader, i, token_of[i], start, [0, 1, 2][-(last or 3) :], mlp, may_look)
        scored = i if read == "self" else held[n - 1]
        logit = float(logits[token_of[scored]])
        score[scored] = -logit if value == "logit" else math.log(sum(math.exp(x) for x in logits.tolist())) - logit
    return smoothed(score, span)


def smoothed(score: dict, span: int) -> dict:
    """Mean over the finite ones among the `span` positions around each; the infinite stay."""
    new = {}
    for i, s in score.items():
        near = [score[j] for j in range(i - (span - 1) // 2, i + span // 2 + 1) if j in score]
        near = [x for x in near if x != math.inf]
        new[i] = sum(near) / len(near) if s != math.inf else s
    return new
