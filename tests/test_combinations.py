"""Every method under every budget rule and schedule: it runs with the exact number of rows, or is refused by name."""

import pytest
import torch
from tiny_chat import command_line, write_model

from nanokv import UserError
from nanokv.__main__ import main
from nanokv.buffer import new_buffer, rows_held
from nanokv.generate import generate
from nanokv.load import random_weights, tiny_config
from nanokv.methods import METHODS, find
from nanokv.options import build, options_of
from nanokv.passes import causal_pass

CFG = tiny_config()
WEIGHTS = {dtype: random_weights(CFG, dtype=dtype) for dtype in (torch.float32, torch.bfloat16)}
IDS = torch.randint(97, (30,), generator=torch.Generator().manual_seed(13)).tolist()
LATER = torch.randint(97, (1, 5), generator=torch.Generator().manual_seed(14))
BUDGET = 20
FULL = torch.float32

# Who shares one set of rows, by hand: everybody, or the heads of a layer; all other methods choose head by head.
TOKEN = ["counter_causal", "counter_causal_fast", "sliding_window", "streaming_llm", "h2o_released"]
TOKEN += ["importance_released", "causal_surprise", "random", "unigram"]
LAYER = ["tova"]
HEAD = ["h2o", "snapkv", "pyramidkv", "adakv", "criticalkv", "andpro", "obcache", "caote", "caote_fast", "laq"]
HEAD += ["expected_attention", "keydiff", "key_norm", "lore_e", "lore_d", "lore_window", "lore_uniform"]
HEAD += ["lore_oracle", "andpro_lookahead"]
REFUSED = {(name, rule): "one set of rows for all layers and heads" for name in TOKEN for rule in ("pyramid", "ada")}
REFUSED |= {(name, "ada"): "one set of rows for all heads of a layer" for name in LAYER}
PAIRS = [(name, rule) for name in TOKEN + LAYER + HEAD for rule in ("uniform", "pyramid", "ada")]
LEGAL = [pair for pair in PAIRS if pair not in REFUSED]
LOOKAHEADS = ["lore_e", "lore_d", "lore_uniform", "andpro_lookahead"]


def plan_of(name, rule=None, every=None):
    """A preset with a small window and lookahead; `every` None: once after the prompt."""
    small = {"window": 6, "M": 2, "T": 2, "n_pseudo": 2}
    settings = {key: x for key, x in small.items() if key in options_of(find(name))}
    once, protect = every is None, "none,sinks:2,recent:6"
    return build(find(name), BUDGET, every, once=once, protect=protect, allocate=rule, settings=settings)[0]


def run_of(name, rule=None, every=None, new=4, dtype=FULL, **more):
    return generate(WEIGHTS[dtype], CFG, IDS, plan_of(name, rule, every), new, **more)


def test_every_preset_is_in_these_tests():
    assert sorted(TOKEN + LAYER + HEAD) == sorted(m.name for m in METHODS if m.name != "full")


@pytest.mark.parametrize("name, rule", REFUSED)
def test_a_budget_rule_with_nothing_to_divide_is_refused_with_the_reason(name, rule):
    with pytest.raises(UserError, match=f"--allocate {rule}: {name} keeps {REFUSED[name, rule]}"):
        plan_of(name, rule)


@pytest.mark.parametrize("every", [None, 16, 1], ids=["once", "every_16", "every_1"])
@pytest.mark.parametrize("name, rule", LEGAL)
def test_every_other_pair_runs_with_the_exact_number_of_rows(name, rule, every):
    run = run_of(name, rule, every)
    last = {None: 30, 16: 32, 1: 33}[every]  # of 33 tokens read; every 16 begins when 32 are
    assert [r.n_seen for r in run.refreshes] == ([last] if every != 1 else [*range(21, 34)])
    rows = rows_held(run.kv)
    assert sum(map(sum, rows)) == 6 * (BUDGET + 33 - last) and run.kv.n_seen == 33
    assert rule != "uniform" or {n for heads in rows for n in heads} == {BUDGET + 33 - last}
    assert rule != "ada" or {sum(heads) for heads in rows} == {2 * (BUDGET + 33 - last)}
    assert len(run.output_ids) == 4 and run.seen.logits.isfinite().all()


def hide(run):
    """A hook under which the rows that the run has dropped cannot be seen in a full buffer."""
    (done,) = run.refreshes

    def scores(layer, x):  # [b h g t s]
        keep = done.keep[0 if done.shared else layer].expand(1, CFG.n_kv_head, -1)
        x[..., : keep.shape[-1]].masked_fill_(~keep[:, :, None, None], -torch.inf)

    return {"scores": scores}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("name, rule", LEGAL)
def test_decoding_after_eviction_equals_a_full_buffer_with_the_same_rows_hidden(name, rule, dtype):
    weights = WEIGHTS[dtype]
    for step in (1, 5):
        run = run_of(name, rule, new=1, dtype=dtype)
        full, hooks = new_buffer(CFG, 35, dtype), hide(run)
        causal_pass(weights, CFG, full, torch.tensor([IDS]))
        for tokens in LATER.split(step, dim=1):
            evicted = causal_pass(weights, CFG, run.kv, tokens).float()
            hidden = causal_pass(weights, CFG, full, tokens, hooks=hooks).float()
            near = 1e-5 if dtype == FULL else 0.05
            assert float((evicted - hidden).norm() / hidden.norm()) < near
        assert sum(map(sum, rows_held(full))) == 6 * 35 and sum(map(sum, rows_held(run.kv))) == 6 * 25


@pytest.mark.parametrize("name", ["full", *TOKEN, *LAYER, *HEAD])
def test_a_greedy_answer_touches_neither_torch_s_random_state_nor_the_run_s(name):
    torch.manual_seed(5)
    state, rng = torch.get_rng_state(), torch.Generator().manual_seed(3)
    own = rng.get_state()
    plan = None if name == "full" else plan_of(name)
    generate(WEIGHTS[FULL], CFG, IDS, plan, 3, rng=rng)
    assert torch.equal(torch.get_rng_state(), state) and torch.equal(rng.get_state(), own)


@pytest.mark.parametrize("name", LOOKAHEADS)
def test_three_seeds_give_three_lookaheads_and_the_same_seed_the_same_run(name):
    def run(seed):
        settings = {"window": 6, "M": 2, "T": 4, "seed": seed}
        return generate(WEIGHTS[FULL], CFG, IDS, build(find(name), BUDGET, protect="none", settings=settings)[0], 6)

    runs = [run(seed) for seed in (0, 1, 2, 0)]
    looked = [r.seen.report["lookahead"]["trajectories"] for r in runs]
    assert looked[3] == looked[0] != looked[1] != looked[2] != looked[0]
    first, last = runs[0].refreshes[0], runs[3].refreshes[0]
    assert runs[0].output_ids == runs[3].output_ids
    assert all(torch.equal(a, b) for a, b in zip(first.scores + first.keep, last.scores + last.keep))


def test_the_table_of_methods_names_paper_rule_schedule_protection_and_options(capsys):
    assert main(["methods"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert [
        word for word in ("paper", "rows shared by", "budget", "schedule", "protects", "options") if word not in head
    ] == []
    table = {line.split()[0]: line for line in lines}
    assert list(table) == [m.name for m in METHODS]
    assert all(words in table["pyramidkv"] for words in ("2406.02069", "nobody", "pyramid", "once", "recent:window"))
    assert all(words in table["adakv"] for words in (" ada ", "kernel=7", "window=32", "ada_floor=0.2"))
    assert all(words in table["h2o"] for words in ("2306.14048", "uniform", "every J/4", "recent:50%", "reduce=mean"))
    assert all(words in table["tova"] for words in ("a layer's heads", "every J/4", " - "))
    assert all(
        words in table["lore_d"] for words in ("lambda_D=0.3", "gamma=1.0", "M=4", "T=8", "sinks:4,recent:window")
    )
    assert all(word in table["full"] for word in ("everything", "; -"))


@pytest.mark.parametrize("name, kept", [("snapkv", "16"), ("h2o", "16"), ("tova", "16"), ("pyramidkv", "12 to 20")])
def test_the_closing_line_prints_the_kept_counts_of_budget_16_sink_4_window_8(name, kept, tmp_path, capsys):
    """16 in every layer and head; PyramidKV gives 8 of the 4 free rows on average to the first layer, 0 to the last."""
    folder = write_model(tmp_path)
    words = ("--prompt", "x" * 40, "--raw", "--method", name, "--budget", 16, "--once", "--max-new-tokens", 1)
    code, _, err = command_line(capsys, folder, *words, "--protect", "none,sinks:4,recent:8")
    assert code == 0 and f"[40 seen, {kept} kept, 1 refreshes" in err


@pytest.mark.parametrize(
    "name, options",
    [
        (
            "lore_e",
            {"window": 32, "M": 4, "T": 8, "chunk": 4, "lambda_L": 1.0, "beta": 1.0, "gamma": 1.3, "lambda_D": 0.0},
        ),
        ("lore_e", {"psi": "sum", "norm": "l2", "group": "mean", "chunk_of": "joint", "temperature": 1.0}),
        ("lore_e", {"alpha": 0.0, "kappa": 0.0, "tau": 0.0, "past_eos": False, "queries": "sampled"}),
        ("lore_d", {"beta": 1.0, "gamma": 1.0, "lambda_D": 0.3}),
        ("andpro", {"window": 32, "chunk": 4, "kernel": 7, "anchor": "droppable"}),
        ("criticalkv", {"window": 32, "kernel": 7, "first_stage": 0.5, "stage_of": "free"}),
        ("pyramidkv", {"window": 32, "kernel": 7, "pyramid_beta": 20}),
        ("obcache", {"window": 32, "kernel": 1}),
    ],
    ids=str,
)
def test_the_defaults_of_a_preset_are_the_paper_s(name, options):
    found = build(find(name), 128)[1]
    assert {key: found[key] for key in options} == options


def test_lore_s_budget_of_128_is_4_sinks_a_window_of_32_and_23_chunks_of_4():
    ids = torch.randint(97, (200,), generator=torch.Generator().manual_seed(0)).tolist()
    run = generate(WEIGHTS[FULL], CFG, ids, build(find("lore_window"), 128)[0], 1)
    for keep in run.refreshes[0].keep:
        for head in keep[0]:
            assert head[:4].all() and head[-32:].all() and int(head.sum()) == 4 + 32 + 23 * 4
            assert set(head[4:-32].reshape(41, 4).sum(dim=-1).tolist()) == {0, 4}
