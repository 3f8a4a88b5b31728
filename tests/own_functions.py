"""A user's own scores and masks, right and wrong ones, for test_own.py."""

import os
import signal
from dataclasses import dataclass

import torch

from nanokv.buffer import view
from nanokv.surprise import surprise


@dataclass
class Nothing:
    x: "int" = 0


def same(weights, cfg, kv, seen):
    return surprise(weights, cfg, kv, seen)


def newest(weights, cfg, kv, seen, *, sign=1):
    return sign * view(kv, 0)[2].float()


def per_head(weights, cfg, kv, seen):
    return [seen.record["q"][layer].float().sum() * 0 + view(kv, layer)[2].expand(-1, 2, -1) for layer in range(2)]


def raises(*args):
    raise ZeroDivisionError("three\nlines\nlong")


def nothing(*args):
    pass


def short(weights, cfg, kv, seen):
    return torch.zeros(1, 1, 3)


def one_layer(weights, cfg, kv, seen):
    return [view(kv, 0)[2].float()]


def nan(weights, cfg, kv, seen):
    return view(kv, 0)[2] * torch.nan


def interrupted(*args):
    raise KeyboardInterrupt


def killed(*args):
    os.kill(os.getpid(), signal.SIGINT)
    return torch.zeros(1, 1, 10**9)


def causal(q_pos, k_pos):
    q, k = q_pos[:, None, :, None], k_pos[:, :, None, :]
    return (k <= q) & (k >= 0)


def only_itself(q_pos, k_pos):
    return q_pos[:, None, :, None] == k_pos[:, :, None, :]


def ahead(q_pos, k_pos):
    return q_pos[:, None, :, None] < k_pos[:, :, None, :]


def not_bool(q_pos, k_pos):
    return causal(q_pos, k_pos).float()
