"""LongBench's 16 tasks: templates, splits and limits as published, loading, and what right and wrong answers score."""

import hashlib
import json
from pathlib import Path

import pytest

pytest.importorskip("rouge", reason="pip install -r eval/requirements.txt")
pytest.importorskip("rapidfuzz", reason="pip install -r eval/requirements.txt")

import naive_text
from eval_data import data_root

from eval.task import Request
from eval.tasks.longbench import TASKS
from nanokv import UserError

SAMPLES = Path(__file__).parent / "eval_samples"
TEMPLATE_SHA256 = {  # the first 16 digits, of the strings in THUDM/LongBench's config/dataset2prompt.json
    "narrativeqa": "aada7ed24b06abac",
    "qasper": "0fbdd123fe7f83d6",
    "multifieldqa_en": "20b4666a2de8a1f7",
    "hotpotqa": "9ec4ae308865bd0c",
    "2wikimqa": "9ec4ae308865bd0c",
    "musique": "9ec4ae308865bd0c",
    "gov_report": "91c25d585b189ced",
    "qmsum": "dca23b678fe0183b",
    "multi_news": "2af3f28c40b902e6",
    "trec": "0eff8bebdba99d91",
    "triviaqa": "00a802e6377e72fc",
    "samsum": "a68d884234907eef",
    "passage_count": "986550b6c61009c6",
    "passage_retrieval_en": "39b96b7fa52bdd2a",
    "lcc": "6a1f24cf0bb83cd9",
    "repobench-p": "ee9ec182ea5ffeb7",
}
MAX_NEW_TOKENS = {128: "narrativeqa qasper samsum", 512: "gov_report qmsum multi_news"}
MAX_NEW_TOKENS |= {64: "multifieldqa_en trec lcc repobench-p"}
MAX_NEW_TOKENS |= {32: "hotpotqa 2wikimqa musique triviaqa passage_count passage_retrieval_en"}
RAW = {"trec", "triviaqa", "samsum", "lcc", "repobench-p"}
ENDS = {"trec": "Type:", "triviaqa": "Answer:", "samsum": "Summary:"}


def load(name: str, n: int = 99, data=SAMPLES, seed: int = 0) -> list:
    return TASKS[f"longbench/{name}"].load(Request(n=n, seed=seed, data=data))


def score(name: str, answer: str, sample) -> dict:
    return TASKS[f"longbench/{name}"].score(answer, sample)


def write(folder: Path, name: str, **changes) -> Path:
    """A data folder with one row; changed fields, None takes one out."""
    row = {"_id": "0", "input": ENDS.get(name, ""), "context": "", "answers": ["1"], "all_classes": ["1"]} | changes
    (folder / "longbench").mkdir()
    text = json.dumps({key: value for key, value in row.items() if value is not None})
    (folder / "longbench" / f"{name}.jsonl").write_text(text + "\n", encoding="utf-8")
    return folder


def test_the_sixteen_tasks_have_the_published_limits_and_chat_rule():
    limits = {name: limit for limit, names in MAX_NEW_TOKENS.items() for name in names.split()}
    assert set(TASKS) == {f"longbench/{name}" for name in limits}
    for name, limit in limits.items():
        sample = load(name)[0]
        assert (sample.max_new_tokens, sample.chat, sample.prefix) == (limit, name not in RAW, "")
        assert sample.stop == ("newline" if name == "samsum" else None)


@pytest.mark.parametrize("name", TEMPLATE_SHA256)
def test_a_row_of_placeholders_gives_back_the_published_template(name, tmp_path):
    ends = ENDS.get(name, "")
    (sample,) = load(name, data=write(tmp_path, name, context="{context}", input="{input}" + ends))
    prompt = (sample.context + sample.question).replace("{input}" + ends, "{input}")
    assert hashlib.sha256(prompt.encode()).hexdigest()[:16] == TEMPLATE_SHA256[name]


@pytest.mark.parametrize("name", TEMPLATE_SHA256)
def test_the_question_part_begins_behind_the_context_and_holds_the_input(name):
    for line, sample in zip((SAMPLES / "longbench" / f"{name}.jsonl").read_text("utf-8").splitlines(), load(name)):
        row = json.loads(line)
        assert sample.context.rstrip("\n").endswith(row["context"].rstrip("\n"))
        assert row["input"] in sample.question and not sample.question.startswith("\n")
        assert sample.gold == tuple(row["answers"])


def test_braces_in_a_text_are_left_alone():
    assert "the {keeper} of the harbour" in load("narrativeqa")[0].context


@pytest.mark.parametrize("name", TEMPLATE_SHA256)
def test_every_reference_as_the_answer_scores_one(name):
    for sample in load(name):
        for gold in sample.gold:
            for answer in (gold, "\n" + gold + "\n"):
                result = score(name, answer, sample)
                assert result["score"] == pytest.approx(1) and result["answered"] is True


@pytest.mark.parametrize("name", TEMPLATE_SHA256)
def test_the_next_samples_answer_scores_chance(name):
    """Chance: 0 where the references share no word, class or number; otherwise what the formula gives."""
    samples = load(name)
    for sample, other in zip(samples, samples[1:] + samples[:1]):
        answer = other.gold[0]
        if name in ("gov_report", "qmsum", "multi_news", "samsum"):
            chance = max(naive_text.rouge_l(answer, gold) for gold in sample.gold)
        elif name in ("lcc", "repobench-p"):
            chance = max(naive_text.edit_similarity(answer, gold) for gold in sample.gold)
        else:
            chance = 0
        assert score(name, answer, sample)["score"] == pytest.approx(chance) and chance < 0.75


@pytest.mark.parametrize("name", TEMPLATE_SHA256)
def test_an_empty_answer_is_unanswered_and_scores_zero(name):
    for sample in load(name):
        assert score(name, "\n \n" if name not in ("lcc", "repobench-p") else "\n", sample) == {
            "score": 0,
            "answered": False,
        }


def test_an_answer_without_a_class_or_a_number_is_unanswered():
    for name in ("trec", "passage_count", "passage_retrieval_en"):
        assert score(name, "no idea", load(name)[0]) == {"score": 0, "answered": False}


def test_only_the_first_line_counts_where_examples_stand_in_the_prompt():
    trec, trivia, samsum = (load(name)[0] for name in ("trec", "triviaqa", "samsum"))
    assert score("trec", "\nReason\nQuestion: ...\nType: City", trec)["score"] == 1
    assert score("trec", "City\nReason", trec)["score"] == 0
    assert score("triviaqa", "Lise Roth\nPassage: another", trivia)["score"] == 1
    assert score("samsum", samsum.gold[0] + "\nDialogue: more", samsum)["score"] == pytest.approx(1)
    story = load("narrativeqa")[0]
    assert score("narrativeqa", "\nnine miles\nQuestion: how long ago", story)["score"] == pytest.approx(
        2 * 2 / (6 + 2)
    )


def test_code_is_the_first_line_without_comment_signs_and_keeps_its_indentation():
    lcc = load("lcc")[0]
    assert score("lcc", "# area\n    return width * height\nmore", lcc)["score"] == 1
    assert score("lcc", "return width * height", lcc)["score"] == 0.91  # 2 * 21 / (21 + 25)


def test_the_first_n_rows_do_not_depend_on_n_or_seed():
    assert load("trec", 2) == load("trec", 3)[:2] == load("trec", 2, seed=7)
    assert [sample.id for sample in load("trec", 500)] == [f"invented-trec-{i}" for i in range(3)]


def test_an_absent_file_names_its_download(tmp_path):
    with pytest.raises(UserError, match=r"longbench/lcc\.jsonl.*hf download THUDM/LongBench data\.zip"):
        load("lcc", data=tmp_path)


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("qasper", {"context": None}, '"context" should be a string'),
        ("qasper", {"answers": []}, '"answers" should be'),
        ("qasper", {"answers": [None]}, '"answers" should be'),
        ("qasper", {"answers": "yes"}, '"answers" should be'),
        ("trec", {"all_classes": None}, '"all_classes" should be a list'),
        ("samsum", {"input": "Dialogue: A: hi"}, 'does not end in "Summary:"'),
    ],
)
def test_a_row_that_lacks_something_is_refused_by_line_and_field(name, changes, message, tmp_path):
    with pytest.raises(UserError, match=rf"{name}\.jsonl, line 1: .*{message}"):
        load(name, data=write(tmp_path, name, **changes))


def test_a_line_that_is_not_json_is_refused(tmp_path):
    path = write(tmp_path, "lcc") / "longbench" / "lcc.jsonl"
    path.write_text(path.read_text("utf-8") + "\n{broken\n", encoding="utf-8")
    assert len(load("lcc", n=1, data=tmp_path)) == 1
    with pytest.raises(UserError, match=r"lcc\.jsonl, line 3: not JSON"):
        load("lcc", n=2, data=tmp_path)


@pytest.mark.parametrize("name", TEMPLATE_SHA256)
def test_the_published_file_loads_and_its_references_score_one(name):
    root = data_root()
    if root is None or not (root / "longbench" / f"{name}.jsonl").is_file():
        pytest.skip(f"no longbench/{name}.jsonl under NANOKV_DATA")
    for sample in load(name, n=20, data=root):
        if name not in ("lcc", "repobench-p"):  # a reference with a comment sign in it never scores
            assert score(name, sample.gold[0], sample)["score"] == pytest.approx(1)
