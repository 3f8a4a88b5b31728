"""README's pictures from one real run: `python -m eval.pictures` writes eval/retention.svg and eval/masks.svg."""

from pathlib import Path

import torch

from eval.draw import Strip, masks_svg, retention_svg
from nanokv import masks
from nanokv.chat import read_chat
from nanokv.config import read_config
from nanokv.demo import question_ids
from nanokv.generate import generate
from nanokv.load import read_weights
from nanokv.methods import find
from nanokv.options import build
from weights.get import ensure_default

HERE = Path(__file__).parent
LAYER, HEAD = 15, 0  # whose rows stand for a method that keeps others in every head
MASKS = {
    "causal": masks.causal,
    "counter_causal": masks.counter_causal,
    "sliding_window(5)": masks.sliding_window(5),
    "either(sinks(2), sliding_window(3))": masks.either(masks.sinks(2), masks.sliding_window(3)),
}


def kept_rows(done, layer: int, head: int) -> list:
    """Positions kept by one refresh in that layer and head, or by all of them where they share one set."""
    layer, head = (0, 0) if done.shared else (layer, head)
    keep = done.keep[layer][0, head]
    return done.positions[layer].expand(done.keep[layer].shape)[0, head][keep].tolist()


@torch.inference_mode()
def main():
    folder = ensure_default()
    cfg, chat = read_config(folder), read_chat(folder)
    weights = read_weights(folder, cfg)
    ids, n_system = question_ids(chat)
    budget, strips = len(ids) // 4, []
    for name in ("sliding_window", "h2o", "counter_causal"):
        run = generate(weights, cfg, ids, build(find(name), budget, n_system=n_system)[0], max_new_tokens=64)
        where = "" if run.refreshes[0].shared else f", layer {LAYER}, kv head {HEAD}"
        strips.append(Strip(name + where, "refresh", [kept_rows(done, LAYER, HEAD) for done in run.refreshes]))
    run = generate(weights, cfg, ids, build(find("lore_e"), budget)[0], max_new_tokens=1)
    heads = [(layer, head) for layer in range(cfg.n_layer) for head in range(cfg.n_kv_head)]
    rows = [kept_rows(run.refreshes[0], *at) for at in heads]
    strips.append(Strip("lore_e, once after the prompt", "layer x head", rows))
    (HERE / "retention.svg").write_text(retention_svg(strips, run.kv.n_seen + 64))
    held = torch.tensor([0, 1, 5, 6, 9])
    grids = [(name, mask(held[None], held[None, None])[0, 0].tolist()) for name, mask in MASKS.items()]
    (HERE / "masks.svg").write_text(masks_svg(grids, held.tolist()))


if __name__ == "__main__":
    main()
