"""LoCoMo: the paper's prompt, conversations rendered, five categories scored as upstream does, and tabled apart."""

import hashlib
import importlib
import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("nltk", reason="pip install -r eval/requirements.txt")

import eval_lines
from eval_data import data_root

from eval.arrange import tables
from eval.task import Request
from eval.tasks import find_task
from eval.tasks.locomo import TASKS
from nanokv import UserError

SAMPLES = Path(__file__).parent / "eval_samples"
FILE = json.loads((SAMPLES / "locomo" / "locomo10.json").read_text("utf-8"))
TEMPLATE_SHA256 = "62da72d4269e153e"  # the first 16 digits, of arXiv 2607.27600's released template
FROZEN_SHA256 = "64e4503725516d24"
MAY_REFUSE = 'If the answer cannot be found in the conversation, respond with "no information available".\n'
FIRST_CONVERSATION = """Input: [1:15 pm on 3 May, 2023]
Noor: Look at {this}! [shared image: a photo of a red boat]
Ruth: You painted it in a week?
[9:00 am on 2 June, 2023]
Ruth: The kiln arrived, at last.

"""


def load(n: int = 9999, data=SAMPLES, seed: int = 0) -> list:
    return TASKS["locomo"].load(Request(n=n, seed=seed, data=data))


def score(answer: str, sample) -> dict:
    return TASKS["locomo"].score(answer, sample)


def write(folder: Path, content) -> Path:
    (folder / "locomo").mkdir(exist_ok=True)
    (folder / "locomo" / "locomo10.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


def entry(qa: list, speakers=("{speaker1}", "{speaker2}")) -> dict:
    turns = [{"speaker": speaker, "text": "hello"} for speaker in speakers]
    return {"sample_id": "made", "conversation": {"session_1_date_time": "now", "session_1": turns}, "qa": qa}


def asked(**fields) -> dict:
    """A question; changed fields, None takes one out."""
    question = {"question": "{question}", "answer": "x", "category": 4} | fields
    return {key: value for key, value in question.items() if value is not None}


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def test_the_task_is_found_and_is_asked_as_published():
    assert find_task("locomo") == (TASKS["locomo"], None)
    for sample in load():
        assert (sample.max_new_tokens, sample.chat, sample.prefix, sample.stop) == (32, False, "", None)


def test_placeholders_give_back_the_published_template(tmp_path):
    plain, adversarial = load(data=write(tmp_path, [entry([asked(), asked(category=5)])]))
    context = plain.context.replace("[now]\n{speaker1}: hello\n{speaker2}: hello", "{conversation}")
    assert digest(context + plain.question) == TEMPLATE_SHA256
    assert digest(plain.context[: plain.frozen]) == FROZEN_SHA256
    assert adversarial.context == plain.context and adversarial.question == MAY_REFUSE + plain.question
    assert plain.question == "Question: {question}\nAnswer:"


def test_sessions_stand_in_the_order_of_their_numbers_and_pictures_by_caption():
    for sample in load()[:6]:
        assert sample.context[sample.frozen :] == FIRST_CONVERSATION
        assert "between Noor and Ruth." in sample.context[: sample.frozen]


def test_ids_categories_and_references_whatever_n_and_seed():
    samples = load()
    assert [s.id for s in samples] == [f"invented-1/{i}" for i in range(6)] + ["invented-2/0", "invented-2/1"]
    assert samples[:3] == load(3) == load(3, seed=7) and load(0) == []
    assert [s.meta["category"] for s in samples] == [1, 2, 3, 4, 5, 5, 1, 2]
    refusal = "no information available"
    gold = ["painting boats, sailing", "2 June 2023", "Likely yes", "the kiln", refusal, refusal, "3", "2021"]
    assert [s.gold[0] for s in samples] == gold
    assert [s.meta["answer"] for s in samples[4:6]] == ["a red boat", "No"]  # adversarial_answer only where it must


@pytest.mark.parametrize(
    ("index", "answer", "expected"),
    [
        (0, "painting boats, sailing", 1),
        (0, "sail, swimming", (0 + 1) / 2),
        (0, "painted a boat and sails", (2 * 2 / (3 + 2) + 2 * 1 / (3 + 1)) / 2),  # no comma: one part for both
        (1, " June 2, 2023.\n", 1),  # a comma is no border here
        (1, "in June", 2 * 1 / (2 + 3)),
        (2, "Likely yes", 1),
        (3, "A kiln, and bricks", 2 * 1 / (2 + 1)),
        (3, "", 0),
        (6, "She has 3.", 2 * 1 / (3 + 1)),
        (6, "three", 0),
        (7, "since 2021", 2 * 1 / (2 + 1)),
    ],
)
def test_f1_over_stems_by_hand(index, answer, expected):
    result = score(answer, load()[index])
    assert result["score"] == pytest.approx(expected) and result["answered"] == bool(answer)


def test_category_5_is_scored_by_refusal_alone():
    for sample in load()[4:6]:
        for right in ("no information available", "There is No Information Available.", "It is not mentioned"):
            assert score(right, sample)["score"] == 1
        for wrong in ("a red boat", "No", "Yes", "I do not know", "no information", ""):
            assert score(wrong, sample)["score"] == 0
    assert score("not mentioned", load()[3])["score"] == 0


def test_the_papers_code_takes_a_category_3_answer_whole():
    samples = load()
    assert score("Likely yes", samples[2])["released"] == pytest.approx(2 * 2 / (2 + 5))  # likely yes she has kiln
    assert score("Likely yes; she has a kiln", samples[2])["released"] == 1
    for sample in samples[:2] + samples[3:]:
        for answer in ("kilns, boat 3", "not mentioned"):
            assert score(answer, sample)["released"] == score(answer, sample)["score"]


def test_perfect_answers_score_one_and_the_next_questions_nothing_but_the_refusal():
    samples = load()
    assert [score(sample.gold[0], sample)["score"] for sample in samples] == [1] * 8
    shifted = [score(other.gold[0], sample)["score"] for sample, other in zip(samples, samples[1:] + samples[:1])]
    assert shifted == [0, 0, 0, 0, 1, 0, 0, 0]  # the fifth and sixth are both of category 5


def test_a_table_by_category_has_each_with_its_count():
    lines = []
    for sample in load():
        result = score("no information available", sample)
        details = {key: value for key, value in result.items() if key not in ("score", "answered")}
        lines.append(eval_lines.line("locomo", sample.id, score=result["score"], details=details))
    for by, expected in (
        ("category", {1: (2, 0), 2: (2, 0), 3: (1, 0), 4: (1, 0), 5: (2, 100), "all": (8, 25)}),
        ("categories", {"1-4": (6, 0), "5": (2, 100), "all": (8, 25)}),
    ):
        (table,) = tables(lines, by)
        cells = {column: cell for (_, column), cell in table.cells.items()}
        assert table.columns == list(expected)
        assert {name: (len(c.samples), c.estimate("score").mean) for name, c in cells.items()} == expected


def test_an_absent_file_names_its_download(tmp_path):
    with pytest.raises(UserError, match=r"missing file: .*locomo10\.json.*curl .*snap-research/locomo"):
        load(data=tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "json should hold a list"),
        ([entry([]) | {"conversation": []}], 'made: "conversation" should be an object'),
        ([entry([], speakers=["A", "A"])], "made: a conversation needs two speakers, this one has 1"),
        ([entry([asked(question=None)])], 'made, qa 0: "question" should be a string'),
        ([entry([asked(), asked(category="4")])], 'made, qa 1: "category" should be a number'),
        ([entry([asked(category=6)])], "should be 1 to 5"),
        ([entry([asked(answer=None)])], '"answer" or "adversarial_answer" should be a string'),
        ([entry([asked()]) | {"conversation": {"session_1": [{"speaker": "A"}]}}], 'session_1: "text" should be'),
    ],
)
def test_what_is_not_as_published_is_refused_by_name(content, message, tmp_path):
    with pytest.raises(UserError, match=message):
        load(data=write(tmp_path, content))


def test_without_nltk_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "nltk.stem", None)
    monkeypatch.delitem(sys.modules, "eval.tasks.locomo")
    with pytest.raises(UserError, match=r"^nltk is missing: pip install -r eval/requirements\.txt$"):
        importlib.import_module("eval.tasks.locomo")


def test_the_published_file_loads_and_its_answers_score_one():
    root = data_root()
    if root is None or not (root / "locomo" / "locomo10.json").is_file():
        pytest.skip("no locomo/locomo10.json under NANOKV_DATA")
    samples = load(data=root)
    counts = {c: sum(s.meta["category"] == c for s in samples) for c in range(1, 6)}
    assert counts == {1: 282, 2: 321, 3: 96, 4: 841, 5: 446} and len({s.id for s in samples}) == 1986
    assert all(score(sample.gold[0], sample)["score"] == pytest.approx(1) for sample in samples)
    scored = [score(other.gold[0], s)["score"] for s, other in zip(samples, samples[7:]) if s.meta["category"] != 5]
    assert sum(scored) / len(scored) < 0.05
    assert all(sample.context.count("\n[") >= 18 for sample in samples)  # sessions, each with its date
