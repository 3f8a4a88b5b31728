"""Step through one refresh: `python -m eval.step_refresh`. Tiny random weights, no download, pdb just above it."""

import torch

from nanokv.buffer import new_buffer
from nanokv.evict import Plan, Seen, refresh
from nanokv.load import random_weights, tiny_config
from nanokv.passes import causal_pass
from nanokv.surprise import surprise


@torch.inference_mode()
def main():
    cfg = tiny_config()
    weights = random_weights(cfg, seed=0)
    ids = torch.randint(cfg.n_vocab, (1, 20), generator=torch.Generator().manual_seed(0))
    plan = Plan(score=surprise, budget=8, every=20)
    seen = Seen(plan.budget, plan.protection, n_prompt=20)
    kv = new_buffer(cfg, rows=20)
    causal_pass(weights, cfg, kv, ids)
    breakpoint()  # `s` enters refresh; `n` steps; in it, `p scores[0]`, `p keep[0]`
    done = refresh(weights, cfg, kv, plan, seen, room=20)
    print("held   ", done.positions[0][0, 0].tolist())
    print("kept   ", done.positions[0][0, 0][done.keep[0][0, 0]].tolist())


if __name__ == "__main__":
    main()
