"""Prompts split at the question, forks, fidelity: against plain passes on a tiny checkpoint."""

import pytest
import torch
import torch.nn.functional as F
from tiny_chat import write_model

from eval.answer import LineWatch, Model, answer, parts, read, read_for_all, stopper
from eval.fidelity import fidelity, follow, tokens_to_feed
from eval.prompts import build_prompt, protected_rows
from eval.task import Sample
from nanokv import UserError
from nanokv.chat import decode, encode_raw, read_chat, stop_ids
from nanokv.config import read_config
from nanokv.evict import Plan
from nanokv.generate import generate
from nanokv.load import read_weights
from nanokv.methods import find
from nanokv.options import build

CONTEXT = "Keep this. " + "The grass is green and the sky is blue. " * 8
SAMPLE = Sample("0", CONTEXT, "What is green?", ("grass",), 12, prefix=" It is", frozen=len("Keep this. "))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = write_model(tmp_path_factory.mktemp("model"), max_position_embeddings=2048)
    cfg, chat = read_config(folder), read_chat(folder)
    return Model(read_weights(folder, cfg, torch.float32), cfg, chat, frozenset(stop_ids(cfg, chat)))


def test_the_prompt_is_split_where_the_question_begins(model):
    prompt = build_prompt(model.chat, SAMPLE)
    context, rest = parts(prompt, "after")
    assert context + rest == prompt.ids and parts(prompt, "before") == (prompt.ids, [])
    assert decode(model.chat, context).endswith(CONTEXT)
    assert decode(model.chat, rest).startswith("What is green?") and decode(model.chat, rest).endswith(" It is")
    assert decode(model.chat, prompt.ids[: prompt.n_frozen]).endswith("Keep this. ")
    assert "Keep" not in decode(model.chat, prompt.ids[: prompt.n_leading])
    assert protected_rows(prompt, "before") == (prompt.n_frozen, True)


def test_a_task_without_a_question_cannot_be_asked_after(model):
    with pytest.raises(UserError, match="needs a question"):
        parts(build_prompt(model.chat, Sample("0", "Only this.", "", (), 4)), "after")


def test_a_cut_prompt_keeps_both_ends(model):
    sample = Sample("0", "a" * 60 + "b" * 60, "c" * 10, (), 4, chat=False)
    prompt = build_prompt(model.chat, sample, max_prompt=40)
    assert decode(model.chat, prompt.ids) == "a" * 20 + "b" * 10 + "c" * 10 and prompt.n_cut == 90
    assert decode(model.chat, prompt.ids[prompt.n_context :]) == "c" * 10


@torch.inference_mode()
@pytest.mark.parametrize("name", ["snapkv", "lore_e", "expected_attention", "causal_surprise", "keydiff", "criticalkv"])
def test_forks_of_one_reading_answer_as_runs_of_their_own(model, name):
    """In both orders, so that what one fork appends or moves is seen by no other."""
    prompt = build_prompt(model.chat, SAMPLE)
    plans = [build(find(m), b, once=True)[0] for m, b in ((name, 64), ("random", 48), (name, 96))]
    alone = [
        generate(model.weights, model.cfg, prompt.ids, p, 12, model.stop_ids, n_ids=model.chat.n_ids) for p in plans
    ]
    reading = read_for_all(model, prompt, "before", plans, 12)
    for order in (range(3), reversed(range(3))):
        for i in order:
            ready = read(model, plans[i], prompt, "before", 12, reading)
            assert answer(model, ready, 12).output_ids == alone[i].output_ids


@torch.inference_mode()
def test_fidelity_is_what_two_plain_caches_say_along_the_answer(model):
    prompt = build_prompt(model.chat, SAMPLE)
    plan, _ = build(find("snapkv"), 48)
    said = generate(model.weights, model.cfg, prompt.ids, None, 12, n_ids=model.chat.n_ids).output_ids
    p, q = (token_by_token(model, prompt, plan, said) for plan in (Plan(), plan))
    near = fidelity(model, *(follow_fresh(model, prompt, plan, said) for plan in (Plan(), plan)), said)
    assert near["n"] == 12
    assert near["kl"] == pytest.approx(float(F.kl_div(q, p, reduction="batchmean", log_target=True)), rel=1e-3)
    assert near["nll"] == pytest.approx(float(F.nll_loss(q, torch.tensor(said))), rel=1e-4)
    assert near["top1"] == pytest.approx(float((p.argmax(-1) == q.argmax(-1)).float().mean()))
    same = fidelity(model, *(follow_fresh(model, prompt, Plan(), said) for _ in range(2)), said)
    assert same["kl"] == pytest.approx(0, abs=1e-6) and same["top1"] == 1


def follow_fresh(model, prompt, plan, said):
    ready = read(model, plan, prompt, "before", 12)
    return follow(model, ready.run, tokens_to_feed(said, "max_new_tokens"))


def token_by_token(model, prompt, plan, said):
    """log-probabilities [n v] before each token of `said`, fed one at a time."""
    ready, found = read(model, plan, prompt, "before", 12), []
    for token in said:
        found.append(ready.run.seen.logits.log_softmax(-1))
        ready.infer([token])
    return torch.stack(found)


@torch.inference_mode()
def test_asking_after_evicts_the_context_and_nothing_behind_it(model):
    prompt = build_prompt(model.chat, SAMPLE)
    plan, _ = build(find("counter_causal_fast"), 48, 16)
    ready = read(model, plan, prompt, "after", 12)
    context = parts(prompt, "after")[0]
    assert ready.run.refreshes[-1].n_seen == len(context)
    n = len(answer(model, ready, 12).output_ids)
    assert ready.run.kv.n_seen - len(prompt.ids) in (n - 1, n) and ready.run.refreshes[-1].n_seen == len(context)


def test_an_answer_ends_at_a_line_break_that_has_text_before_it(model):
    watch = LineWatch()
    assert [watch.push(piece) for piece in ("\n", "\n", "so ", "be it\n")] == [False, False, False, True]
    until, ids = stopper(model.chat, "newline"), encode_raw(model.chat, "yes\nno")
    assert [until(ids[: i + 1]) for i in range(4)] == [False, False, False, True]
    with pytest.raises(UserError, match="newline or boxed"):
        stopper(model.chat, "full stop")
