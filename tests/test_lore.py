"""LORE-KV against naive loops over numbers on tiny weights, option by option. SmolLM2: test_lore_smollm2.py."""

import json

import pytest
import torch
from naive import turn
from naive_lore import NaiveLore, diverse

from nanokv import UserError
from nanokv import lore as module
from nanokv.buffer import new_buffer
from nanokv.compact import compact
from nanokv.effects import Effects
from nanokv.evict import Protection, Seen
from nanokv.generate import generate
from nanokv.load import random_weights, tiny_config
from nanokv.lore import mixture, scaled
from nanokv.methods import find
from nanokv.options import build
from nanokv.passes import causal_pass
from nanokv.scores import watch_last_queries

CFG = tiny_config()
WEIGHTS = random_weights(CFG)
IDS = torch.randint(97, (26,), generator=torch.Generator().manual_seed(7)).tolist()
TRAJECTORIES = [[3, 14, 15, 92], [65, 35], [89, 79, 32]]
WINDOW, SINKS, BUDGET = 5, 2, 17  # 19 free rows: 4 chunks of 4 and a tail of 3; 10 of them stay


@pytest.fixture(scope="module")
def look(tmp_path_factory):
    path = tmp_path_factory.mktemp("look") / "look.json"
    path.write_text(json.dumps({"trajectories": TRAJECTORIES}))
    return str(path)


@pytest.fixture(scope="module")
def naive():
    return NaiveLore(WEIGHTS, CFG, IDS, TRAJECTORIES, WINDOW, SINKS)


def run_of(name="lore_e", **settings):
    settings = {"window": WINDOW, **settings}
    plan, _ = build(find(name), BUDGET, protect=f"none,sinks:{SINKS},recent:{WINDOW}", settings=settings)
    return generate(WEIGHTS, CFG, IDS, plan, 1)


def kept(run, layer, head):
    return run.refreshes[0].keep[layer][0, head].nonzero()[:, 0].tolist()  # the slots of a prompt are its positions


def weighing(options):
    return {name: options[name] for name in ("beta", "gamma", "lambda_D", "omega") if name in options}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"lambda_D": 0.3, "gamma": 1.0},
        {"chunk": 1},
        {"chunk": 3},
        {"chunk_of": "mean"},
        {"psi": "identity"},
        {"psi": "rank"},
        {"psi": "maxpool"},
        {"norm": "l1"},
        {"group": "max"},
        {"group": "sum"},
        {"group": "sum", "norm": "l1"},
        {"omega": "uniform"},
        {"lambda_L": 2.5},
        {"lambda_L": 0.0},
        {"alpha": 0.34},
        {"beta": 3.0, "gamma": 0.0},
    ],
    ids=lambda options: "_".join(f"{k}={v}" for k, v in options.items()) or "default",
)
def test_scores_and_kept_rows_equal_loops_over_numbers(options, look, naive):
    run = run_of(lookahead=look, **options)
    size = options.get("chunk", 4)
    w = naive.weigh(**weighing(options))["weights"]
    how = {name: x for name, x in options.items() if name not in weighing(options)}
    for layer in range(3):
        for head in range(2):
            S = naive.score(layer, head, w, **how)
            rows = [s for s, chunk in zip(S, naive.chunks(size)) for _ in chunk]
            found = run.refreshes[0].scores[layer][0, head, SINKS : 26 - WINDOW]
            torch.testing.assert_close(found, torch.tensor(rows), rtol=2e-4, atol=1e-6)
            assert kept(run, layer, head) == naive.keep(S, size, BUDGET)


@pytest.mark.parametrize("name, numbers", [("lore_e", (1.0, 1.3, 0.0)), ("lore_d", (1.0, 1.0, 0.3))])
def test_reliability_equals_loops_over_numbers_and_trajectories_of_other_lengths(name, numbers, look, naive):
    report = run_of(name, lookahead=look).seen.report["lookahead"]
    assert report["trajectories"] == TRAJECTORIES
    for key, value in naive.weigh(*numbers).items():
        assert report[key] == pytest.approx(value, abs=1e-4), key


def test_a_weight_of_0_is_the_window_alone_and_looks_nowhere(monkeypatch):
    monkeypatch.setattr(module, "lookahead", None)  # any call would fail
    window, zero = run_of("lore_window"), run_of("lore_e", lambda_L=0.0)
    assert all(torch.equal(a, b) for a, b in zip(window.refreshes[0].scores, zero.refreshes[0].scores))
    assert "lookahead" not in window.seen.report and window.kv.peak_rows == 26


def test_a_greedy_lookahead_is_what_the_full_cache_answers():
    run = run_of("lore_oracle", T=6)
    assert run.seen.report["lookahead"]["trajectories"] == [generate(WEIGHTS, CFG, IDS, None, 6).output_ids]


def test_past_eos_goes_on_behind_a_stop_token():
    first = run_of("lore_oracle", T=6).seen.report["lookahead"]["trajectories"][0]
    for past_eos, n in ((False, 1 + first.index(first[2])), (True, 6)):
        settings = {"window": WINDOW, "T": 6, "past_eos": past_eos}
        plan, _ = build(find("lore_oracle"), BUDGET, protect="none,recent:5", settings=settings)
        run = generate(WEIGHTS, CFG, IDS, plan, 1, stop_ids={first[2]})
        assert run.seen.report["lookahead"]["trajectories"] == [first[:n]]


def test_identical_lookaheads_double_psi_whatever_their_weights():
    psi = scaled(torch.tensor([[0.7071, 0.4066, 0.4257]]), "sum")
    assert psi[0].tolist() == pytest.approx([0.459, 0.264, 0.277], abs=1e-3)
    S = psi + mixture(torch.stack([psi, psi]), torch.tensor([0.9, 0.1]), 0.0)
    torch.testing.assert_close(S, 2 * psi)


@pytest.mark.parametrize("options", [{}, {"lambda_v": 0.0}, {"lambda_k": 0.0}, {"tau": 0.2}, {"lambda_k": -1.0}])
def test_diversity_takes_chunks_greedily_and_discounts_those_like_the_ones_taken(options, naive):
    how = {"tau": 0.9, "lambda_k": 1.0, "lambda_v": 1.0, **options}
    run, changed = run_of("lore_window", chunk=2, **how), False
    for layer in range(3):
        for head in range(2):
            S = naive.score(layer, head, None, chunk=2, lambda_L=0.0)
            k, v = (
                [sum(turned(naive, layer, head, s)[i] for s in c) / len(c) for c in naive.chunks(2)] for i in range(2)
            )
            order = diverse(S, k, v, **how)
            ranked = [float(x) for c, x in sorted(zip(order, range(len(order), 0, -1)))]
            assert kept(run, layer, head) == naive.keep(ranked, 2, BUDGET)
            changed |= naive.keep(ranked, 2, BUDGET) != naive.keep(S, 2, BUDGET)
    assert changed or how["tau"] == 0.2


def turned(naive, layer, head, s):
    """(rotated key, value) of one row."""
    pos, k, v = naive.prompt.rows[layer][s]
    return turn(k[head], pos, CFG.rope.theta), v[head]


@pytest.mark.parametrize(
    "settings",
    [
        *({"psi": "z"}, {"norm": "l3"}, {"group": "min"}, {"omega": "best"}, {"queries": "real"}, {"chunk": 0}),
        *({"chunk_of": "max"}, {"alpha": 0.5}, {"alpha": -0.3}, {"M": 0}, {"T": 0}, {"temperature": 0.0}),
    ],
    ids=str,
)
def test_an_option_that_cannot_be_is_refused_with_the_choices(settings):
    with pytest.raises(UserError, match=r"\bor\b|leaves none|at least one|above 0"):
        run_of(**settings)


def test_rows_protected_or_empty_are_no_part_of_a_chunk():
    """A head beside a longer one has the effects that it has beside its like; chunks it does not hold weigh nothing."""
    keep, effects = torch.stack((torch.arange(26) >= 3, torch.arange(26) >= 12)), []
    for both in (keep, keep[1:].expand(2, -1)):
        kv, seen = new_buffer(CFG, 26), Seen(BUDGET, Protection(recent=WINDOW), 26)
        causal_pass(
            WEIGHTS, CFG, kv, torch.tensor([IDS]), hooks=watch_last_queries(WEIGHTS, CFG, kv, seen, window=WINDOW)
        )
        compact(kv, 0, both[None])
        effects.append(Effects(WEIGHTS, CFG, kv, seen, 0, 4))
    uneven, even = (e.of_window()[1] for e in effects)
    assert even.shape == (3,) and uneven[3:].tolist() == [0, 0]  # 9 free rows, beside 18
    torch.testing.assert_close(uneven[:3], even)
    slots = effects[0].to_slots(effects[0].of_window())[0]
    assert slots[1, 9:].abs().max() == 0 and slots[0, 18:].abs().max() == 0 and slots[1, :9].min() > 0


def test_ties_between_chunks_go_to_the_newer():
    S, keys = torch.ones(1, 20), torch.eye(20)[None]
    assert scaled(S, "rank")[0].argsort().tolist() == [*range(20)]
    assert module.diverse(S, keys, keys, 20, 0.5, 1.0, 1.0)[0].argsort().tolist() == [*range(20)]
