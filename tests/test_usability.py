"""Nothing is substituted, nothing is computed or held that is not needed."""

import pytest
import torch
from tiny_chat import write_model

import nanokv.generate
from nanokv import UserError
from nanokv.arguments import choose_dtype, parser
from nanokv.buffer import notes, view
from nanokv.config import read_config
from nanokv.evict import Plan, Protection
from nanokv.generate import generate
from nanokv.load import random_weights, read_weights, tiny_config
from nanokv.methods import METHODS, find
from nanokv.options import build
from nanokv.scores import recency

PROMPT = [i * 7 % 97 for i in range(60)]


@pytest.fixture(scope="module")
def model():
    cfg = tiny_config()
    return random_weights(cfg), cfg


@pytest.mark.parametrize("plan", [Plan(), Plan(recency, budget=16, every=4)])
def test_only_the_last_position_is_projected_to_the_vocabulary(model, monkeypatch, plan):
    rows = []

    def spy(weights, x):
        rows.append(x.shape[1])
        return unembed(weights, x)

    unembed = nanokv.generate.unembed
    monkeypatch.setattr(nanokv.generate, "unembed", spy)
    generate(*model, PROMPT, plan, max_new_tokens=3)
    assert set(rows) == {1}


def blocks(run) -> set:
    """How many rows the blocks have room for."""
    return {part[name].block.shape[2] for parts in run.kv.layers for part in parts for name in ("k", "v", "pos")}


def test_rows_are_allocated_for_budget_plus_h_not_for_the_models_length(model):
    before = []

    def watch(weights, cfg, kv, seen):
        before.append(kv.layers[0][0]["k"].block.shape[2])
        return {}

    plan = Plan(recency, budget=16, every=4, watch=watch)
    run = generate(*model, PROMPT, plan, max_new_tokens=30)
    assert blocks(run) == {16 + 4} and run.kv.peak_rows == 20
    assert before == [20]


def test_without_eviction_rows_are_allocated_for_prompt_and_answer(model):
    assert blocks(generate(*model, PROMPT, max_new_tokens=30)) == {90}


@pytest.mark.parametrize(("budget", "rows"), [(16, 16 + 30), (100, 60 + 30)])
def test_one_refresh_leaves_room_for_the_answer(model, budget, rows):
    assert blocks(generate(*model, PROMPT, Plan(recency, budget=budget), max_new_tokens=30)) == {rows}


def test_an_unknown_device_is_refused_with_the_choices(tmp_path):
    folder = write_model(tmp_path)
    for device in ("gpu", "meta", f"cuda:{torch.cuda.device_count()}"):
        with pytest.raises(UserError, match=f"no device '{device}' here; there is: cpu"):
            read_weights(folder, read_config(folder), device=device)


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16"])
def test_the_weights_have_the_dtype_that_was_asked_for(tmp_path, name):
    folder = write_model(tmp_path)
    args = parser().parse_args(["generate", "--model", "m", "--prompt", "p", "--dtype", name])
    cfg = read_config(folder)
    weights = read_weights(folder, cfg, choose_dtype(args, cfg))
    assert weights.embed.dtype == weights.layers[0].w_q.dtype == getattr(torch, name)


def test_dtype_auto_is_float32_on_a_cpu(model):
    args = parser().parse_args(["generate", "--model", "m", "--prompt", "p"])
    assert choose_dtype(args, tiny_config(dtype=torch.bfloat16)) == torch.float32


def test_an_unknown_dtype_is_refused_with_the_choices():
    args = parser().parse_args(["generate", "--model", "m", "--prompt", "p", "--dtype", "int8"])
    with pytest.raises(UserError, match=r"unknown --dtype 'int8'; there are: auto, float32, bfloat16, float16"):
        choose_dtype(args, tiny_config())


def test_an_unknown_method_is_refused_with_the_list():
    with pytest.raises(UserError, match=r"unknown method 'h20'; there are: ") as error:
        find("h20")
    assert all(m.name in str(error.value) for m in METHODS)


def test_a_score_that_reads_attention_weights_gets_them_all(model):
    """Whoever asks for probabilities gets the path that forms them: every query pays 1 in all."""
    plan, _ = build(find("h2o"), budget=100, every=100)
    run = generate(*model, PROMPT, plan, max_new_tokens=1)
    for layer in range(3):
        paid = notes(run.kv, layer, "mass").sum(dim=-1)
        torch.testing.assert_close(paid, torch.full_like(paid, len(PROMPT)), rtol=0, atol=1e-3)


def test_ids_and_buffer_live_where_the_weights_live():
    """On the meta device nothing is computed, but a tensor of another device still fails to meet it."""

    class Reached(Exception):
        pass

    def stop(layer, z):
        raise Reached(z.device)

    cfg = tiny_config()
    weights = random_weights(cfg)
    for part in (weights, *weights.layers):
        for name, x in vars(part).items():
            setattr(part, name, x.to("meta") if isinstance(x, torch.Tensor) else x)
    held = []
    plan = Plan(recency, 16, 4, Protection(), watch=lambda w, cfg, kv, s: held.append(kv) or {"q": stop})
    with pytest.raises(Reached, match="meta"):
        generate(weights, cfg, PROMPT, plan)
    assert view(held[0], 0)[0].device.type == held[0].ids.block.device.type == "meta"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_a_run_on_a_gpu_gives_the_cpus_tokens(tmp_path):
    folder = write_model(tmp_path)
    cfg = read_config(folder)
    one, other = (generate(read_weights(folder, cfg, device=d), cfg, PROMPT).output_ids for d in ("cpu", "cuda"))
    assert one == other


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_a_random_state_of_another_device_fails_naming_both():
    from nanokv.sample import sampler

    with pytest.raises(RuntimeError, match=r"cuda.*cpu|cpu.*cuda"):
        sampler()(torch.zeros(4, device="cuda"), torch.Generator("cpu"))
