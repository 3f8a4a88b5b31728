"""Qasper v0.3: the paper's prompt and order of references, its F1 and upstream's, best over the annotators."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest
from eval_data import data_root

from eval.task import Request
from eval.tasks import find_task
from eval.tasks.qasper import TASKS
from nanokv import UserError

SAMPLES = Path(__file__).parent / "eval_samples"
TEMPLATE_SHA256 = "c97eecbb09561947"  # the first 16 digits, of arXiv 2607.27600's released template
FROZEN_SHA256 = "25c5280aa61e37d9"
NOTHING = {"unanswerable": False, "extractive_spans": [], "yes_no": None, "free_form_answer": ""}


def load(n: int = 99, data=SAMPLES, seed: int = 0) -> list:
    return TASKS["qasper"].load(Request(n=n, seed=seed, data=data))


def score(answer: str, sample) -> dict:
    return TASKS["qasper"].score(answer, sample)


def write(folder: Path, content) -> Path:
    (folder / "qasper").mkdir(exist_ok=True)
    (folder / "qasper" / "qasper-dev-v0.3.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


def paper(*answers, **fields) -> dict:
    """A file of one paper with one question; changed fields of the paper."""
    qas = [{"question": "{question}", "question_id": "q", "answers": [{"answer": answer} for answer in answers]}]
    return {"p1": {"title": "{title}", "abstract": "{abstract}", "full_text": [], "qas": qas} | fields}


def asked(tmp_path, *answers: dict):
    """The sample of a question with these answers, each told as what differs from NOTHING."""
    (sample,) = load(data=write(tmp_path, paper(*(NOTHING | answer for answer in answers))))
    return sample


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def test_the_task_is_found_and_is_asked_as_published():
    assert find_task("qasper") == (TASKS["qasper"], None)
    for sample in load():
        assert (sample.max_new_tokens, sample.chat, sample.prefix, sample.stop) == (128, False, "", None)


def test_placeholders_give_back_the_published_template(tmp_path):
    sample = asked(tmp_path, {"yes_no": True})
    assert digest(sample.context + "{sections}" + sample.question) == TEMPLATE_SHA256
    assert digest(sample.context[: sample.frozen]) == FROZEN_SHA256
    assert sample.question == "Question: {question}\n\nAnswer:"


def test_sections_have_their_name_if_any_and_all_their_paragraphs():
    assert load()[0].context[load()[0].frozen :] == (
        "Title: Tagging an Invented Language\n\nAbstract:\nWe tag {Glossian}.\n\n"
        "Introduction:\nGlossian has no tagger.\n\nWe make one.\n\n"
        "A paragraph without a heading.\n\n"
        "Model ::: Layers:\nA biLSTM over characters.\nA CRF on top.\n\n"
    )
    assert load()[2].context.endswith("Abstract:\nHerons were counted.\n\n")


def test_ids_differ_though_a_question_id_stands_twice_and_n_and_seed_move_nothing():
    samples = load()
    assert [s.id for s in samples] == ["0000.00001/0", "0000.00001/1", "0000.00002/0"]
    assert [s.meta["question_id"] for s in samples] == ["q-model", "q-twice", "q-twice"]
    assert samples[:2] == load(2) == load(2, seed=7)


def test_references_in_the_papers_order_of_kinds_and_in_upstreams():
    samples = load()
    assert [s.gold for s in samples] == [
        ("biLSTM over characters CRF", "A character model with a CRF."),
        ("no", "unanswerable"),
        ("yes",),
    ]
    assert samples[0].meta["official"][0] == "biLSTM over characters, CRF"
    assert samples[2].meta["official"] == ("Herons were counted",)


@pytest.mark.parametrize(
    ("answer", "gold", "official"),
    [
        ({"unanswerable": True, "yes_no": True, "free_form_answer": "x"}, "unanswerable", "unanswerable"),
        ({"yes_no": False, "free_form_answer": "x"}, "no", "x"),
        ({"yes_no": False}, "no", "no"),
        ({"extractive_spans": ["one", "two"], "free_form_answer": "x"}, "one two", "one, two"),
        ({"free_form_answer": "x"}, "x", "x"),
        ({}, "unanswerable", "unanswerable"),
    ],
)
def test_the_kind_of_a_reference(answer, gold, official, tmp_path):
    sample = asked(tmp_path, answer)
    assert (sample.gold, sample.meta["official"]) == ((gold,), (official,))


@pytest.mark.parametrize(
    ("gold", "answer", "expected", "official"),
    [
        ("a deep CRF", "The deep CRF!", 1, 1),
        ("a deep CRF", "a CRF of ours", 2 * 1 / (3 + 2), 2 * 1 / (3 + 2)),
        ("a deep CRF", " \n", 0, 0),
        ("deep deep CRF", "deep CRF CRF", 2 * 2 / 6, 2 * 2 / 6),
        ("state-of-the-art", "stateoftheart", 1, 1),  # punctuation goes before articles do
        ("yes", "Yes, they train one", 1, 2 * 1 / (4 + 1)),
        ("yes", "\nYes.", 1, 1),
        ("no", "There is no tagger", 2 * 1 / (4 + 1), 2 * 1 / (4 + 1)),  # only a leading no stands alone
        ("unanswerable", "Unanswerable. The text is silent", 1, 2 * 1 / (4 + 1)),  # "the" does not count
        ("No significant gain", "no", 1, 2 * 1 / (1 + 3)),  # the references are cut too
        ("No significant gain", "a significant gain", 0, 2 * 2 / (2 + 3)),
    ],
)
def test_f1_by_hand(gold, answer, expected, official, tmp_path):
    result = score(answer, asked(tmp_path, {"free_form_answer": gold}))
    assert (result["score"], result["official"]) == (pytest.approx(expected), pytest.approx(official))
    assert result["answered"] == bool(answer.strip())


def test_the_best_reference_counts(tmp_path):
    sample = asked(tmp_path, {"free_form_answer": "red"}, {"free_form_answer": "red boat"}, {"unanswerable": True})
    assert score(" red boat ", sample)["score"] == 1 and score("red", sample)["score"] == 1
    assert score("unanswerable", sample)["score"] == 1
    assert score("red boat there", sample)["score"] == pytest.approx(2 * 2 / (3 + 2))


def test_perfect_answers_score_one_and_the_next_questions_nothing():
    samples = load()
    for sample in samples:
        assert all(score(gold, sample)["score"] == 1 for gold in sample.gold)
        assert all(score(gold, sample)["official"] == pytest.approx(1) for gold in sample.meta["official"])
    shifted = [score(other.gold[0], sample) for sample, other in zip(samples, samples[1:] + samples[:1])]
    assert [(s["score"], s["official"]) for s in shifted] == [(0, 0)] * 3


def test_an_absent_file_names_its_download(tmp_path):
    with pytest.raises(UserError, match=r"missing file: .*qasper-dev-v0\.3\.json.*curl .*qasper-train-dev-v0\.3\.tgz"):
        load(data=tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "json should hold an object"),
        ({"p1": []}, "p1: not a JSON object"),
        (paper(NOTHING, title=None), 'p1: "title" should be a string'),
        (paper(NOTHING, full_text="text"), 'p1: "full_text" should be a list'),
        (paper(NOTHING, full_text=["text"]), "p1: not a JSON object"),
        (paper(NOTHING, full_text=[{"paragraphs": [1]}]), 'p1: "paragraphs" should be strings'),
        (paper(NOTHING, qas=[{"question": "?"}]), 'p1, question 0: "answers" should be a list'),
        (paper(), 'p1, question 0: "answers" is empty'),
        (paper("yes"), 'p1, question 0: "answer" should be an object'),
        (paper(NOTHING | {"yes_no": "no"}), '"yes_no" should be true or false'),
        (paper(NOTHING | {"unanswerable": None}), '"unanswerable" should be true or false'),
        (paper(NOTHING | {"extractive_spans": [1]}), '"extractive_spans" should be strings'),
        (paper(NOTHING | {"free_form_answer": None}), '"free_form_answer" should be a string'),
    ],
)
def test_what_is_not_as_published_is_refused_by_name(content, message, tmp_path):
    with pytest.raises(UserError, match=message):
        load(data=write(tmp_path, content))


def test_real_files_load_and_their_references_score_one(tmp_path):
    root = data_root()
    files = ("qasper-dev-v0.3.json", "qasper_sample_small.json")
    found = root and next((p for p in (root / "qasper" / f for f in files) if p.is_file()), None)
    if not found:
        pytest.skip(f"no qasper/{files[0]} under NANOKV_DATA")
    (tmp_path / "qasper").mkdir()
    shutil.copy(found, tmp_path / "qasper" / files[0])
    samples = load(n=5000, data=tmp_path)
    assert len(samples) == (1005 if found.name == files[0] else 4)
    assert len({sample.id for sample in samples}) == len(samples)
    perfect = [max(score(gold, sample)["score"] for gold in sample.gold) for sample in samples]
    assert sum(perfect) / len(perfect) > 0.99  # a reference of signs alone has no words to match
    if found.name == files[1]:
        assert [sample.gold for sample in samples] == [
            ("a vocabulary", "using seed lexicon"),
            ("yes",),
            ("unanswerable",),
            ("Conclusion paragraph",),
        ]
