"""RULER's questions: one question of SQuAD 2.0 or HotpotQA, its documents hidden among others of the same file."""

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from eval.task import Request, Sample, data_file
from eval.tasks import ruler
from nanokv import UserError

ORDER = "Answer the question based on the given documents. Only give me the answer and do not output any other words."
CONTEXT = ORDER + "\n\nThe following are given documents.\n\n{context}\n\n"
QUESTION = ORDER + "\n\nQuestion: {query}"
PREFIX = " Answer:"


@dataclass(frozen=True)
class Question:
    """Documents by index: `own` must be there, `near` come first where more fit, any others after them."""

    index: int
    text: str
    answers: tuple
    own: list
    near: list


def load(request: Request, task: str, row: ruler.Row) -> list:
    """Samples in the file's order, id = the question's index among the answerable ones.

    A question whose own documents are longer than the length is left out: below 2,000 tokens or so only. meta has
    "documents", how many the prompt holds, and "left_out", how many questions before this one were. UserError where
    none fits, and where all documents of the file do not fill the length (upstream would repeat them).
    """
    source = SOURCES[row.options["dataset"]]
    path = data_file(request, source.file, source.where)
    documents, questions = read(path, source)
    samples = []
    for question in questions:
        if len(samples) == request.n:
            break
        order = document_order(request, task, question, len(documents))
        build = partial(sample, request, row.max_new_tokens, documents, question, order, question.index - len(samples))
        built = ruler.fit(request, build, len(question.own), len(order))
        if built and built.meta["documents"] == len(documents):
            raise UserError(f"{task}@{request.length} takes more than the {len(documents)} documents of {path}")
        samples += [built] if built else []
    if not samples and request.n:
        raise UserError(f"{task}@{request.length}: too short for any question of {path} with its own documents")
    return samples


def sample(
    request: Request, max_new_tokens: int, documents: list, question: Question, order: list, left_out: int, size: int
) -> Sample:
    """One sample with the first `size` documents of `order`, in upstream's fixed order."""
    chosen = ruler.fixed_order(request, order[:size])
    text = "\n\n".join(f"Document {i}:\n{documents[at]}" for i, at in enumerate(chosen, start=1))
    return Sample(
        id=str(question.index),
        context=CONTEXT.format(context=text),
        question=QUESTION.format(query=question.text),
        gold=question.answers,
        max_new_tokens=max_new_tokens,
        prefix=PREFIX,
        meta={"documents": size, "left_out": left_out},
    )


def document_order(request: Request, task: str, question: Question, n_documents: int) -> list:
    """Indices of documents: the question's own, those near it, then others; no more than the length could hold."""
    rng = ruler.stream(request, task, question.index)
    near = rng.sample(question.near, len(question.near))
    others = rng.sample(range(n_documents), min(n_documents, request.length))
    return list(dict.fromkeys([*question.own, *near, *others]))


def read(path: Path, source) -> tuple:
    """(documents, questions) of a data file. UserError where it is not in the published format."""
    try:
        documents, questions = source.read(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, LookupError, TypeError, AttributeError) as e:
        raise UserError(f"{path} is not in the format of {source.name}: {type(e).__name__} {e}") from None
    if not questions:
        raise UserError(f"{path} holds no question with an answer")
    return documents, questions


def read_squad(data: dict) -> tuple:
    """Own document: the question's paragraph; near: its article's other paragraphs. Unanswerable ones are left out."""
    articles = [article["paragraphs"] for article in data["data"]]
    documents = sorted({paragraph["context"] for paragraphs in articles for paragraph in paragraphs})
    index, questions = {text: i for i, text in enumerate(documents)}, []
    for paragraphs in articles:
        article = [index[paragraph["context"]] for paragraph in paragraphs]
        for own, paragraph in zip(article, paragraphs):
            for qa in paragraph["qas"]:
                if not qa["is_impossible"]:
                    answers = tuple(dict.fromkeys(answer["text"] for answer in qa["answers"]))
                    near = [i for i in article if i != own]
                    questions.append(Question(len(questions), qa["question"], answers, [own], near))
    return documents, questions


def read_hotpotqa(data: list) -> tuple:
    """Upstream's gold documents are the question's ten. Those with a supporting fact are its own here, the others near
    it: the same from ten documents on, and a shorter prompt still holds the answer."""
    documents = sorted({document(*entry) for row in data for entry in row["context"]})
    index, questions = {text: i for i, text in enumerate(documents)}, []
    for row in data:
        needed = {title for title, _ in row["supporting_facts"]}
        own = [index[document(*entry)] for entry in row["context"] if entry[0] in needed]
        near = [index[document(*entry)] for entry in row["context"] if entry[0] not in needed]
        questions.append(Question(len(questions), row["question"], (row["answer"],), own, near))
    return documents, questions


def document(title: str, sentences: list) -> str:
    return title + "\n" + "".join(sentences)


@dataclass(frozen=True)
class Source:
    name: str
    file: str
    where: str  # what to download
    read: object  # the parsed file -> (documents, questions)


SOURCES = {
    "squad": Source(
        "SQuAD 2.0",
        "ruler/squad_dev.json",
        "It is SQuAD 2.0's dev set: curl -Lo DATA/ruler/squad_dev.json"
        " https://rajpurkar.github.io/SQuAD-explorer/dataset/dev-v2.0.json",
        read_squad,
    ),
    "hotpotqa": Source(
        "HotpotQA",
        "ruler/hotpotqa_dev.json",
        "It is HotpotQA's dev set in the distractor setting: curl -Lo DATA/ruler/hotpotqa_dev.json"
        " http://curtis.ml.cmu.edu/datasets/hotpot/hotpot_dev_distractor_v1.json",
        read_hotpotqa,
    ),
}
TASKS = ruler.tasks("qa", load, ruler.score_any, ruler.ANY)
