"""LongHealth: the paper's prompt, options shuffled and mapped back, letters read, right and wrong answers scored."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from eval_data import data_root

from eval.task import Request
from eval.tasks import find_task
from eval.tasks.longhealth import TASKS
from nanokv import UserError

SAMPLES = Path(__file__).parent / "eval_samples"
FILE = json.loads((SAMPLES / "longhealth" / "benchmark_v5.json").read_text("utf-8"))
QUESTIONS = [fields for patient in FILE.values() for fields in patient["questions"]]
BOTH = ["longhealth", "longhealth_shuffled"]
TEMPLATE_SHA256 = "58e1d6ab4fd1e8e6"  # the first 16 digits, of arXiv 2607.27600's released template
FROZEN_SHA256 = "972863c31cf5fe5f"
READ = {
    ("first", "C"): [" C", "C) The wrist", "(C)", "**C**", "C. Because", "C 4.1 mmol/L", "C\n\nQuestion: next\nA) one"],
    ("first", "B"): ["<think>Could be A) or</think>\n\nB", "B<think>or A)"],
    ("marked", "C"): ["The correct answer is C.", "Based on the records, it is C)", "A patient with this has (C)"],
    ("marked", "D"): ["Answer: D) The nose", "the answer: **D**"],
    ("fallback", "C"): ["The letter is C", "Coronary"],
    ("none", None): ["c", "no idea", "\n", "", "<think>Could be A) or B) or"],
}


def load(name: str = "longhealth", n: int = 99, data=SAMPLES, seed: int = 0) -> list:
    return TASKS[name].load(Request(n=n, seed=seed, data=data))


def score(answer: str, sample) -> dict:
    return TASKS["longhealth"].score(answer, sample)


def shown(sample) -> dict:
    """{letter: text} of the options as the prompt has them."""
    return dict(re.findall(r"^([A-E])\) (.*)$", sample.question, re.MULTILINE))


def write(folder: Path, content) -> Path:
    (folder / "longhealth").mkdir(exist_ok=True)
    (folder / "longhealth" / "benchmark_v5.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


def changed(**fields) -> dict:
    """A file of one question; changed fields, None takes one out."""
    question = {key: value for key, value in (QUESTIONS[0] | fields).items() if value is not None}
    return {"patient_01": {"texts": {"text_0": "x"}, "questions": [question]}}


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@pytest.mark.parametrize("name", BOTH)
def test_the_task_is_found_and_is_asked_as_published(name):
    assert find_task(name) == (TASKS[name], None)
    for sample in load(name):
        assert (sample.max_new_tokens, sample.chat, sample.prefix, sample.stop) == (16, False, "", None)


def test_a_question_of_placeholders_gives_back_the_published_template(tmp_path):
    options = {f"answer_{letter}": f"{{answer_{letter}}}" for letter in "abcde"}
    question = options | {"question": "{question}", "correct": "{answer_b}"}
    content = {"p": {"texts": {"text_0": "{context}"}, "questions": [question]}}
    (sample,) = load(data=write(tmp_path, content))
    assert digest(sample.context + sample.question) == TEMPLATE_SHA256 and sample.gold == ("B",)
    assert digest(sample.context[: sample.frozen]) == FROZEN_SHA256
    assert sample.question.startswith("Question: ")


def test_the_records_are_all_texts_of_the_patient_in_the_files_order():
    samples = load()
    assert [s.id for s in samples] == [f"patient_0{p}/{i}" for p, i in ((1, 0), (1, 1), (1, 2), (2, 0), (2, 1))]
    records = (
        "wrist.  {Plaster} for six weeks.\n\n**Laboratory**\n\nSodium 139 mmol/L.\nFerritin 40 ng/mL.\n\n**Follow-up**"
    )
    assert [score("A", s)["patient"] for s in samples] == ["patient_01"] * 3 + ["patient_02"] * 2
    assert all(records in s.context for s in samples[:3]) and not any("Ferritin" in s.context for s in samples[3:])


def test_the_gold_letter_is_the_files_and_of_two_equal_texts_the_first():
    assert [sample.gold for sample in load()] == [("C",), ("A",), ("C",), ("E",), ("B",)]


@pytest.mark.parametrize("name", BOTH)
def test_letters_are_mapped_back_to_the_files(name):
    for fields, sample in zip(QUESTIONS, load(name), strict=True):
        texts = shown(sample)
        assert sorted(texts.values()) == sorted(fields[f"answer_{letter}"] for letter in "abcde")
        assert texts[sample.gold[0]] == fields["correct"]
        for letter, text in texts.items():
            result = score(letter, sample)
            assert fields[f"answer_{result['chosen'].lower()}"] == text
            assert fields[f"answer_{result['correct'].lower()}"] == fields["correct"]
    assert score("A", load(name)[2])["correct"] == "C"  # not D, which has the same text


def test_each_question_has_an_order_of_its_own_that_nothing_else_moves():
    samples = load("longhealth_shuffled")
    orders = {sample.meta["order"] for sample in samples}
    assert len(orders) > 1 and all(sorted(order) == list("ABCDE") for order in orders)
    assert samples[:2] == load("longhealth_shuffled", n=2) == load("longhealth_shuffled", n=2, seed=7)
    assert {sample.meta["order"] for sample in load()} == {"ABCDE"}
    code = "from eval.tasks.longhealth import shown_order as o; print(*[o(f'patient_0{p}/0') for p in (1, 2)])"
    environment = os.environ | {"PYTHONHASHSEED": "1"}
    said = subprocess.run(
        [sys.executable, "-c", code], cwd=SAMPLES.parents[1], env=environment, capture_output=True, text=True
    )
    assert said.stdout.split() == [samples[0].meta["order"], samples[3].meta["order"]], said.stderr


def test_over_many_questions_the_right_option_stands_under_every_letter(tmp_path):
    question = changed()["patient_01"]["questions"] * 500
    content = {"p": {"texts": {"text_0": "x"}, "questions": question}}
    samples = load("longhealth_shuffled", n=500, data=write(tmp_path, content))
    always = [sum(score(letter, sample)["score"] for sample in samples) / 500 for letter in "ABCDE"]
    assert sum(always) == pytest.approx(1) and all(abs(share - 0.2) < 0.06 for share in always)  # 3.4 standard errors


@pytest.mark.parametrize("name", BOTH)
def test_right_answers_score_one_and_any_letter_by_chance_a_fifth(name):
    for sample in load(name):
        assert score(sample.gold[0], sample)["score"] == 1
        assert score(f" {sample.gold[0]}) {shown(sample)[sample.gold[0]]}", sample)["score"] == 1
        assert sum(score(letter, sample)["score"] for letter in "ABCDE") == 1


def test_the_next_questions_answer_scores_by_chance():
    samples = load()  # C A C E B
    pairs = zip(samples, samples[2:] + samples[:2])
    assert [score(other.gold[0], sample)["score"] for sample, other in pairs] == [1, 0, 0, 0, 0]


@pytest.mark.parametrize(("read", "letter"), READ)
def test_how_a_letter_is_read(read, letter):
    for answer in READ[read, letter]:
        result = score(answer, load()[0])
        assert (result["read"], result["chosen"], result["answered"]) == (read, letter, letter is not None), answer
        assert result["score"] == (letter == "C")


def test_the_papers_own_reading_takes_the_first_capital_anywhere():
    samples = load()
    assert [score("Based on that, C)", s)["released"] for s in samples] == [0, 0, 0, 0, 1]  # B for "Based"
    assert [score(" C", s)["released"] for s in samples] == [1, 0, 1, 0, 0]


def test_an_absent_file_names_its_download(tmp_path):
    with pytest.raises(UserError, match=r"missing file: .*benchmark_v5\.json.*curl .*kbressem/LongHealth"):
        load(data=tmp_path)
    with pytest.raises(UserError, match=r"longhealth/benchmark_v5\.json: give --data"):
        load(data=None)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "json should hold an object"),
        ({"p": 1}, "p: not a JSON object"),
        ({"p": {"questions": []}}, 'p: "texts" should be an object'),
        ({"p": {"texts": {"t": 1}, "questions": []}}, 'p, texts: "t" should be a string'),
        ({"p": {"texts": {}, "questions": ["?"]}}, "p, question 0: not a JSON object"),
        (changed(question=None), 'patient_01, question 0: "question" should be a string'),
        (changed(answer_e=None), '"answer_e" should be a string'),
        (changed(correct="The wirst"), '"correct" is none of the five answers'),
    ],
)
def test_what_is_not_as_published_is_refused_by_name(content, message, tmp_path):
    with pytest.raises(UserError, match=message):
        load(data=write(tmp_path, content))
    (tmp_path / "longhealth" / "benchmark_v5.json").write_bytes(b"\xff{")
    with pytest.raises(UserError, match=r"benchmark_v5\.json is not JSON"):
        load(data=tmp_path)


@pytest.mark.parametrize("name", BOTH)
def test_real_files_load_and_their_answers_score_one(name, tmp_path):
    root = data_root()
    files = ("benchmark_v5.json", "made_up_example.json")
    found = root and next((p for p in (root / "longhealth" / f for f in files) if p.is_file()), None)
    if not found:
        pytest.skip("no longhealth/benchmark_v5.json under NANOKV_DATA")
    (tmp_path / "longhealth").mkdir()
    shutil.copy(found, tmp_path / "longhealth" / files[0])
    samples = load(name, n=1000, data=tmp_path)
    assert len(samples) == (400 if found.name == files[0] else 2)
    assert all(score(sample.gold[0], sample)["score"] == 1 for sample in samples)
    assert all(len(shown(sample)) == 5 for sample in samples)
