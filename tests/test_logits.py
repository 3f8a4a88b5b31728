"""Our forward pass against stored outputs of transformers 5.2.0 (written by tests/golden/make_logits.py)."""

import json
from pathlib import Path

import pytest
import torch
from golden.tiny import write_checkpoint
from safetensors.torch import load_file

from nanokv.buffer import new_buffer
from nanokv.config import read_config
from nanokv.load import read_weights
from nanokv.passes import causal_pass, unembed

GOLDEN = Path(__file__).resolve().parent / "golden"
TINY = json.loads((GOLDEN / "tiny_configs.json").read_text(encoding="utf-8"))
IDS = torch.tensor([TINY.pop("ids")])
LOGITS = load_file(GOLDEN / "tiny_logits.safetensors")


@pytest.fixture(params=TINY)
def tiny(request, tmp_path):
    """(name, cfg, weights) of one tiny variant, read from a folder as a hub folder would be."""
    variant = TINY[request.param]
    folder = write_checkpoint(tmp_path / "model", variant["config"], variant["shapes"])
    cfg = read_config(folder)
    return request.param, cfg, read_weights(folder, cfg)


@torch.inference_mode()
def logits_of(weights, cfg, ids, chunks) -> torch.Tensor:
    """Logits [t v] of ids [1 t], read in pieces of these sizes through one buffer that starts small."""
    kv = new_buffer(cfg, rows=16)
    return torch.cat([unembed(weights, causal_pass(weights, cfg, kv, piece))[0] for piece in ids.split(chunks, dim=1)])


@torch.inference_mode()
def greedy(weights, cfg, ids, n: int) -> list:
    """n arg-max tokens after ids [1 t], one at a time through the buffer."""
    kv = new_buffer(cfg, rows=64)
    tokens = []
    for _ in range(n):
        x = causal_pass(weights, cfg, kv, ids)
        ids = unembed(weights, x[:, -1:]).argmax(dim=-1)
        tokens.append(ids.item())
    return tokens


def test_one_pass_gives_the_reference_logits(tiny):
    name, cfg, weights = tiny
    logits = logits_of(weights, cfg, IDS, [IDS.shape[1]])
    torch.testing.assert_close(logits, LOGITS[name], rtol=0, atol=1e-4)


def test_uneven_chunks_give_the_reference_logits(tiny):
    name, cfg, weights = tiny
    logits = logits_of(weights, cfg, IDS, [17, 1, 9, 13])
    torch.testing.assert_close(logits, LOGITS[name], rtol=0, atol=1e-4)


def test_decoding_one_by_one_gives_the_reference_continuation(tiny):
    name, cfg, weights = tiny
    assert greedy(weights, cfg, IDS, 24) == TINY[name]["greedy"]


def test_every_layer_slides_as_the_reference_does(tiny):
    name, cfg, _ = tiny
    assert list(cfg.windows) == TINY[name]["windows"]


@pytest.fixture(scope="module")
def smollm2_model(smollm2):
    """(cfg, weights) of SmolLM2-135M-Instruct in float32."""
    cfg = read_config(smollm2)
    return cfg, read_weights(smollm2, cfg)


@pytest.fixture(scope="module")
def stored():
    """What the reference gave for SmolLM2-135M-Instruct: prose, and four prompts with their continuations."""
    return load_file(GOLDEN / "smollm2_logits.safetensors")


@pytest.fixture(scope="module")
def smollm2_logits(smollm2_model, stored):
    cfg, weights = smollm2_model
    return logits_of(weights, cfg, stored["ids"].long()[None], [512])


def test_smollm2_gives_the_reference_logits_on_512_tokens_of_prose(smollm2_logits, stored):
    columns = smollm2_logits[:, stored["columns"].long()]
    torch.testing.assert_close(columns, stored["logits"], rtol=0, atol=1e-4)


def test_smollm2_gives_the_reference_normaliser_and_best_token(smollm2_logits, stored):
    normaliser = smollm2_logits.double().logsumexp(dim=-1).float()
    torch.testing.assert_close(normaliser, stored["logsumexp"], rtol=0, atol=1e-4)
    assert torch.equal(smollm2_logits.argmax(dim=-1), stored["argmax"].long())


@pytest.mark.parametrize("i", range(4))
def test_smollm2_continues_a_prompt_as_the_reference_does(smollm2_model, stored, i):
    cfg, weights = smollm2_model
    assert greedy(weights, cfg, stored[f"prompt_{i}"].long()[None], 64) == stored[f"greedy_{i}"].tolist()
