"""RULER: the two question answering tasks, on miniature files and on real ones where they are."""

import json
import re
import shutil

import pytest
from eval_data import data_root
from ruler_help import DATA, TASKS, gap, load, perfect_and_shuffled, split_at

from nanokv import UserError

ORDER = "Answer the question based on the given documents. Only give me the answer and do not output any other words."
TEMPLATE = ORDER + "\n\nThe following are given documents.\n\n{context}\n\n" + ORDER + "\n\nQuestion: {query}"
SQUAD = json.loads((DATA / "ruler" / "squad_dev.json").read_text(encoding="utf-8"))["data"]
HOTPOT = json.loads((DATA / "ruler" / "hotpotqa_dev.json").read_text(encoding="utf-8"))


def documents(sample) -> list:
    """The texts of "Document 1:\\n...", whose numbers must be 1, 2, 3, ..."""
    assert sample.question.startswith(ORDER) and sample.prefix == " Answer:"
    context = split_at(TEMPLATE, sample.context + sample.question)["context"]
    numbers, texts = zip(*re.findall(r"Document (\d+):\n(.*?)(?=\n\nDocument \d+:\n|\Z)", context, re.DOTALL))
    assert list(numbers) == [str(i) for i in range(1, len(texts) + 1)] and len(texts) == sample.meta["documents"]
    assert len(set(texts)) == len(texts)
    return list(texts)


def test_squad_holds_the_question_s_paragraph_then_its_article_s_then_others():
    answerable = [
        (qa, paragraph["context"], {p["context"] for p in article["paragraphs"]})
        for article in SQUAD
        for paragraph in article["paragraphs"]
        for qa in paragraph["qas"]
        if qa["answers"]
    ]
    for length in (190, 256, 300):
        samples = load("ruler/qa_1", length, n=99)
        assert [s.id for s in samples] == [str(i) for i in range(9)]
        for sample, (qa, own, article) in zip(samples, answerable, strict=True):
            texts = documents(sample)
            assert own in texts and any(answer in own for answer in sample.gold)
            assert len(article & set(texts)) == min(4, len(texts))
            assert sample.question.endswith("Question: " + qa["question"])
            assert sample.gold == tuple(sorted({a["text"] for a in qa["answers"]}, key=sample.gold.index))
            assert gap(sample, length) in range(2 + max(len(p.split()) for p in set(own for _, own, _ in answerable)))
    assert max(len(documents(s)) for s in samples) > 4


def test_hotpotqa_holds_the_supporting_documents_then_the_question_s_ten_then_others():
    ten = [[f"{title}\n{''.join(sentences)}" for title, sentences in row["context"]] for row in HOTPOT]
    support = [{title for title, _ in row["supporting_facts"]} for row in HOTPOT]
    for length, at_least in ((170, 2), (340, 10)):
        for i, sample in enumerate(load("ruler/qa_2", length)):
            texts = documents(sample)
            assert support[i] <= {text.split("\n")[0] for text in texts}
            assert len(set(ten[i]) & set(texts)) == min(10, len(texts)) >= at_least
            assert sample.gold == (HOTPOT[i]["answer"],) and sample.id == str(i)
    assert len(texts) > 10


def test_documents_stand_in_one_permutation_for_all_samples_with_as_many():
    """Upstream's shuffle has a fixed seed: the question's own paragraph, first of the list, lands in one place."""
    owns = [p["context"] for a in SQUAD for p in a["paragraphs"] for qa in p["qas"] if qa["answers"]]
    places = {}
    for sample, own in zip(load("ruler/qa_1", 256, n=9), owns):
        places.setdefault(sample.meta["documents"], []).append(documents(sample).index(own))
    assert max(len(where) for where in places.values()) > 2
    assert all(len(set(where)) == 1 for where in places.values())


def test_questions_too_long_are_left_out_and_counted(tmp_path):
    rows = json.loads(json.dumps(HOTPOT))
    rows[0]["context"][1][1] = ["Long " * 300]
    write(tmp_path, "hotpotqa_dev.json", rows)
    samples = load("ruler/qa_2", 256, data=tmp_path)
    assert [(s.id, s.meta["left_out"]) for s in samples] == [("1", 1), ("2", 1)]
    assert load("ruler/qa_2", 256, n=1, data=tmp_path) == samples[:1]
    with pytest.raises(UserError, match=r"ruler/qa_2@100: too short for any question of .*hotpotqa_dev\.json"):
        load("ruler/qa_2", 100, data=tmp_path)


def write(folder, name: str, content) -> None:
    (folder / "ruler").mkdir(exist_ok=True)
    (folder / "ruler" / name).write_text(json.dumps(content), encoding="utf-8")


def test_more_documents_than_there_are_is_refused():
    with pytest.raises(UserError, match=r"ruler/qa_1@2000 takes more than the 8 documents of .*squad_dev.json"):
        load("ruler/qa_1", 2000)


@pytest.mark.parametrize(("task", "file"), [("ruler/qa_1", "squad_dev.json"), ("ruler/qa_2", "hotpotqa_dev.json")])
def test_absent_and_foreign_files_are_refused_by_name(task, file, tmp_path):
    with pytest.raises(UserError, match=f"missing file: .*{file}.*curl -Lo DATA/ruler/{file}"):
        load(task, data=tmp_path)
    with pytest.raises(UserError, match=f"{file}: give --data"):
        load(task, data=None)
    for content in ({"rows": []}, [{"question": "?"}], [1], "text"):
        write(tmp_path, file, content)
        with pytest.raises(UserError, match=f"{file} is not in the format of"):
            load(task, data=tmp_path)
    write(tmp_path, file, {"data": []} if task == "ruler/qa_1" else [])
    with pytest.raises(UserError, match=f"{file} holds no question"):
        load(task, data=tmp_path)


@pytest.mark.parametrize("task", ["ruler/qa_1", "ruler/qa_2"])
def test_questions_score_one_for_any_reference_and_nothing_for_another_question_s(task):
    samples = load(task, 256, n=9)
    assert perfect_and_shuffled(task, samples) == (1, 0)
    score = TASKS[task].score
    assert score(f"it is {samples[0].gold[-1]}", samples[0]) == {"score": 1, "answered": True}
    assert score("\n", samples[0]) == {"score": 0, "answered": False}


@pytest.mark.parametrize(
    ("task", "files", "documents_in_file"),
    [
        ("ruler/qa_1", ("squad_dev.json", "squad_dev_v2_half.json"), 646),
        ("ruler/qa_2", ("hotpotqa_dev.json", "hotpotqa_train_100.json"), 994),
    ],
)
def test_real_files_load_and_fill_the_length(task, files, documents_in_file, tmp_path):
    found = data_root() and next((p for p in (data_root() / "ruler" / f for f in files) if p.is_file()), None)
    if not found:
        pytest.skip(f"no {files[0]} under NANOKV_DATA")
    (tmp_path / "ruler").mkdir()
    shutil.copy(found, tmp_path / "ruler" / files[0])
    samples = load(task, 4096, n=20, data=tmp_path)
    assert [s.meta["left_out"] for s in samples] == [0] * 20 and [s.id for s in samples] == [str(i) for i in range(20)]
    for sample in samples:
        context = sample.context.lower()
        assert 0 <= gap(sample, 4096) < 800 and sample.meta["documents"] >= 10
        assert sample.gold[0] in ("yes", "no") or any(answer.lower() in context for answer in sample.gold)
    neighbours = zip(samples, samples[1:] + samples[:1])
    shared = [any(a.lower() in ", ".join(other.gold).lower() for a in s.gold) for s, other in neighbours]
    assert perfect_and_shuffled(task, samples) == (1, sum(shared) / 20)  # SQuAD's neighbours ask about one paragraph
    assert sum(shared) < 5
    if found.name == files[1]:
        with pytest.raises(UserError, match=f"more than the {documents_in_file} documents"):
            load(task, 400_000, n=1, data=tmp_path)
