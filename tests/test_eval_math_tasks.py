"""MATH500 and AIME: prompts as published, loaders, and what right, wrong and missing answers score."""

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("math_verify", reason="pip install -r eval/requirements.txt")

from eval_data import data_root

from eval.task import Request
from eval.tasks import find_task
from nanokv import UserError

SAMPLES = Path(__file__).parent / "eval_samples"
NAMES = ("math500", "aime2024", "aime2025")


def load(name: str, n: int = 99, data=SAMPLES, seed: int = 0) -> list:
    return find_task(name)[0].load(Request(n=n, seed=seed, data=data))


def score(name: str, answer: str, sample) -> dict:
    return find_task(name)[0].score(answer, sample)


def boxed(text: str) -> str:
    return f"Step by step.\nSo it is $\\boxed{{{text}}}$."


def write(folder: Path, name: str, *lines) -> Path:
    """A data folder in which the file of this task has these lines, objects or strings."""
    file = folder / ("math500/test.jsonl" if name == "math500" else f"aime/{name}.jsonl")
    file.parent.mkdir(exist_ok=True)
    file.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines), "utf-8")
    return folder


def test_math500_is_asked_as_the_released_code_asks_it():
    sample = load("math500")[2]
    assert sample.context == (
        "Solve the following math problem. Show your reasoning step by step, then put your final answer in \\boxed{}."
        "\n\nProblem: Which set of numbers solves $x^2 = 9$? The braces {} belong to your answer.\n\nSolution:"
    )
    assert (sample.question, sample.prefix, sample.chat, sample.frozen) == ("", "", False, 0)
    assert (sample.max_new_tokens, sample.stop, sample.gold) == (2048, "boxed", (r"\{-3, 3\}",))
    assert (sample.id, sample.meta) == ("invented/algebra/3.json", {"subject": "Algebra", "level": 1})


def test_aime_is_asked_in_the_chat_template_as_the_model_cards_advise():
    sample = load("aime2025")[0]
    assert sample.context == (
        "A wheel turns by $16$ degrees a second. By how many degrees does it turn in $21$ seconds?\n"
        "Please reason step by step, and put your final answer within \\boxed{}."
    )
    assert (sample.question, sample.prefix, sample.chat, sample.frozen) == ("", "", True, 0)
    assert (sample.max_new_tokens, sample.stop) == (16384, None)


def test_aime_files_may_name_their_fields_otherwise_and_pad_their_answers():
    assert [(s.id, s.gold) for s in load("aime2024")] == [
        ("invented-I-1", ("204",)),
        ("invented-I-2", ("33",)),
        ("invented-II-1", ("0",)),
    ]
    assert [(s.id, s.gold) for s in load("aime2025")] == [("7", ("336",)), ("8", ("25",))]


@pytest.mark.parametrize("name", NAMES)
def test_references_as_answers_score_one_and_shuffled_ones_nothing(name):
    samples = load(name)
    for sample, other in zip(samples, samples[1:] + samples[:1]):
        right, wrong = (score(name, boxed(s.gold[0]), sample) for s in (sample, other))
        assert (right["score"], right["answered"], wrong["score"], wrong["answered"]) == (1, True, 0, True)


@pytest.mark.parametrize("name", NAMES)
def test_answers_without_a_closed_box_are_unanswered_and_score_zero(name):
    sample = load(name)[0]
    gold = sample.gold[0]
    for answer in ("", gold, f"\\boxed{{{gold}", r"\boxed{}", f"<think>\\boxed{{{gold}}}"):
        result = score(name, answer, sample)
        assert result["score"] == 0 and result["answered"] is False


def test_math500_results_carry_what_tables_go_by():
    assert score("math500", boxed("1.75"), load("math500")[0]) == {
        **{"score": 1, "answered": True},
        **{"subject": "Prealgebra", "level": 1},
    }


@pytest.mark.parametrize(
    ("text", "right"),
    [
        *((text, 1) for text in ("204", "0204", r"2\,04", " 204 ", r"204^\circ", r"204^{\circ}", "$204$")),
        *((text, 0) for text in ("204.5", "-204", r"\frac{408}{2}", "20", "9" * 10_000, "२०४")),
    ],
    ids=lambda value: str(value)[:12],
)
def test_aime_answers_are_compared_as_whole_numbers(text, right):
    assert score("aime2024", boxed(text), load("aime2024")[0])["score"] == right


def test_aime_says_whether_the_thinking_block_ended():
    sample = load("aime2024")[0]
    assert score("aime2024", r"<think>\boxed{1}</think> \boxed{204}", sample) == {
        **{"score": 1, "answered": True, "thought": True}
    }
    assert score("aime2024", "<think>no end", sample) == {"score": 0, "answered": False, "thought": False}


@pytest.mark.parametrize("name", NAMES)
def test_the_first_n_rows_do_not_depend_on_n_or_seed(name):
    assert load(name, 1) == load(name, 2)[:1] == load(name, 1, seed=5)
    assert len({sample.id for sample in load(name)}) == len(load(name)) > 1


@pytest.mark.parametrize(
    ("name", "download"),
    [
        ("math500", "hf download HuggingFaceH4/MATH-500 test.jsonl"),
        ("aime2024", "hf download Maxwell-Jia/AIME_2024 aime_2024_problems.parquet"),
        ("aime2025", "hf download math-ai/aime25 test.jsonl"),
    ],
)
def test_an_absent_file_names_its_download(name, download, tmp_path):
    file = "math500/test.jsonl" if name == "math500" else f"aime/{name}.jsonl"
    with pytest.raises(UserError, match=rf"^missing file: .*{re.escape(file)}\. Download: {re.escape(download)}"):
        load(name, data=tmp_path)


MATH_ROW = {"problem": "1?", "answer": "1", "unique_id": "a"}
AIME_ROW = {"id": "1", "problem": "What?", "answer": "007"}


@pytest.mark.parametrize(
    ("name", "lines", "message"),
    [
        ("math500", [MATH_ROW, "{broken"], "test.jsonl, line 2: not JSON"),
        ("math500", [MATH_ROW, "", ["x"]], "line 3: not a JSON object"),
        ("math500", [MATH_ROW | {"problem": None}], 'line 1: "problem" should be a string'),
        ("math500", [MATH_ROW | {"answer": 1}], 'line 1: "answer" should be a string'),
        ("math500", [{"problem": "1?", "answer": "1"}], 'line 1: "unique_id" should be a string'),
        ("aime2024", [AIME_ROW, {"id": "2", "problem": "Who?"}], 'aime2024.jsonl, line 2: "answer" should be a whole'),
        ("aime2024", [AIME_ROW | {"answer": "1000"}], '"answer" should be a whole number from 0 to 999'),
        ("aime2024", [AIME_ROW | {"answer": "m+n"}], '"answer" should be a whole number from 0 to 999'),
        ("aime2024", [{"id": "1", "answer": "7"}], 'line 1: "problem" should be a string'),
        ("aime2024", ["[1]"], "line 1: not a JSON object"),
        ("aime2025", [AIME_ROW, AIME_ROW | {"id": "2"}], "line 2: repeats the problem of .*line 1;"),
        ("aime2025", [AIME_ROW, AIME_ROW | {"problem": "Who?"}], "line 2: repeats the id of .*line 1;"),
    ],
)
def test_a_row_that_lacks_something_is_refused_by_line_and_field(name, lines, message, tmp_path):
    with pytest.raises(UserError, match=message):
        load(name, data=write(tmp_path, name, *lines))


def test_a_file_that_is_not_utf_8_is_refused(tmp_path):
    (write(tmp_path, "math500") / "math500" / "test.jsonl").write_bytes(b'{"problem": "\xff"}')
    with pytest.raises(UserError, match=r"test\.jsonl: not UTF-8"):
        load("math500", data=tmp_path)


@pytest.mark.parametrize(("name", "n"), [("math500", 500), ("aime2024", 30), ("aime2025", 30)])
def test_the_published_file_loads_and_its_references_score_one(name, n):
    root = data_root()
    file = "math500/test.jsonl" if name == "math500" else f"aime/{name}.jsonl"
    if root is None or not (root / file).is_file():
        pytest.skip(f"no {file} under NANOKV_DATA")
    samples = load(name, n=999, data=root)
    assert len({sample.id for sample in samples}) == len(samples) == n
    assert all(score(name, boxed(s.gold[0]), s)["score"] == 1 for s in samples)
    moved = list(zip(samples, samples[1:] + samples[:1]))
    alike = sum(sample.gold == other.gold for sample, other in moved)
    assert alike <= sum(score(name, boxed(other.gold[0]), s)["score"] for s, other in moved) <= alike + n // 50
