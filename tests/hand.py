"""One layer, one head, W_O = I, and attention that is chosen by hand: the worked example the methods share.

Three keys get a = .5, .3, .2 from one query; their values are (1, 0), (0, 1), (2, 2), so o = (.9, .7). The query is
that of a fourth, newest row which nobody attends to; its value (1, 1) is the mean of the others.
"""

import torch

from nanokv.buffer import append, new_buffer, see, view
from nanokv.evict import Seen, refresh
from nanokv.load import random_weights, tiny_config
from nanokv.methods import find
from nanokv.options import build

CFG = tiny_config(n_layer=1, n_head=1, n_kv_head=1, d_head=2, d_model=2)
WEIGHTS = random_weights(CFG)
WEIGHTS.layers[0].w_o = torch.eye(2)

A = torch.tensor([0.5, 0.3, 0.2])
V = torch.tensor([[1.0, 0], [0, 1], [2, 2]])
O = torch.tensor([0.9, 0.7])


def example():
    """The buffer, and the recorded query (1, 0); the logits z = q k / sqrt(2) are ln a + 1."""
    kv = new_buffer(CFG, 4)
    z = torch.cat((A.log() + 1, torch.tensor([-1e4])))
    k = torch.stack((z * 2**0.5, torch.zeros(4)), dim=-1)
    append(kv, 0, k[None, None], torch.cat((V, torch.tensor([[1.0, 1]])))[None, None], torch.arange(4)[None])
    see(kv, torch.tensor([[10, 11, 12, 13]]))
    return kv, {"q": {0: torch.tensor([1.0, 0])[None, None, None, None]}}


def score_and_keep(name: str, budget: int = 2, **settings):
    """(scores of the three keys, positions kept) of a preset with nothing protected."""
    kv, record = example()
    plan, _ = build(find(name), budget, once=True, protect="none", settings=settings)
    done = refresh(WEIGHTS, CFG, kv, plan, Seen(budget, plan.protection, 4, record=record))
    return done.scores[0][0, 0, :3].tolist(), view(kv, 0)[2][0, 0].tolist()
