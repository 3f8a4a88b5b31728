"""The needle task: the published prompt, the needle once at its depth, lengths to the token, ROUGE-1 by hand."""

import random
from pathlib import Path

import pytest

pytest.importorskip("nltk", reason="pip install -r eval/requirements.txt")

from eval_data import data_root

from eval.prompts import counter
from eval.task import Request
from eval.tasks import find_task
from nanokv import UserError
from nanokv.chat import read_chat

TASK, _ = find_task("needle@1024")
NEEDLE = "The best thing to do in San Francisco is eat a sandwich and sit in Dolores Park on a sunny day."
BEFORE = "<|im_start|> This is a very long story book: <book> "
AFTER = " </book>.\n"
QUESTION = " Based on the content of the book, Question: The best thing to do in San Francisco is: \nAnswer:"
TEN_DEPTHS = [0, 11, 22, 33, 44, 56, 67, 78, 89, 100]


def words(sample) -> int:
    """A stand-in for the runner's count: a token a word."""
    return len(f"{sample.context}{sample.question}{sample.prefix}".split())


def load(length: int = 1024, n: int = 10, seed: int = 0, data=None, count=words) -> list:
    return TASK.load(Request(n, seed, length, data, count))


def around_the_needle(sample) -> tuple:
    """(text before it, text behind it), where it stands once on a line of its own."""
    assert sample.context.startswith(BEFORE) and sample.context.endswith(AFTER)
    before, behind = sample.context[len(BEFORE) : -len(AFTER)].split(f"\n{NEEDLE}\n")
    return before, behind


def write_essays(folder: Path) -> Path:
    """Two small files, with paragraphs, quotation marks and a decimal point."""
    (folder / "essays").mkdir()
    rng = random.Random(4)
    sentences = [" ".join(rng.choices(["river", "3.5", "mill", "stone", "why"], k=9)) for _ in range(60)]
    (folder / "essays" / "b.txt").write_text("\n\n".join(f"B{s}." for s in sentences), "utf-8")
    (folder / "essays" / "a.txt").write_text("".join(f'A "{s}!"\n{s}? ' for s in sentences), "utf-8")
    return folder


def test_the_prompt_is_the_published_one_and_raw():
    assert TASK.needs_length
    for sample in load():
        around_the_needle(sample)
        assert (sample.question, sample.prefix, sample.chat, sample.frozen) == (QUESTION, "", False, 0)
        assert (sample.max_new_tokens, sample.stop, sample.gold) == (30, "newline", (NEEDLE,))


@pytest.mark.parametrize("own_essays", [False, True])
def test_the_needle_stands_once_at_its_depth_behind_the_end_of_a_sentence(own_essays, tmp_path):
    data = write_essays(tmp_path) if own_essays else None
    samples = load(n=20, data=data)
    assert [s.meta["depth"] for s in samples] == TEN_DEPTHS * 2
    assert {s.meta["haystack"] for s in samples} == {"essays" if own_essays else "generated"}
    for sample in samples:
        depth = sample.meta["depth"]
        before, behind = around_the_needle(sample)
        assert before == "" if depth == 0 else before.rstrip("\"'").endswith((".", "!", "?"))
        assert depth < 100 or behind == ""
        n_before, n_all = len(before.split()), len((before + behind).split())
        ends = [i for i, word in enumerate(behind.split(), 1) if word.rstrip("\"'").endswith((".", "!", "?"))]
        assert n_before <= n_all * depth / 100 < n_before + (ends[0] + 1 if ends else 1)  # not one sentence too early


def test_the_haystack_is_the_essays_text_as_it_stands_and_another_part_in_the_next_ten(tmp_path):
    data = write_essays(tmp_path)
    essays = "".join((data / "essays" / name).read_text("utf-8") for name in ("a.txt", "b.txt"))
    samples = load(n=20, data=data, length=500)
    for sample in samples[:9]:
        assert essays.startswith("".join(around_the_needle(sample)))
    first, second = ("".join(around_the_needle(sample)) for sample in (samples[1], samples[11]))
    assert not second.startswith(first[:40]) and second[:200] in essays + " " + essays


@pytest.mark.parametrize("length", [100, 512, 1024, 5000])
def test_the_length_is_met_to_the_word(length):
    assert {length - words(sample) - 30 for sample in load(length)} == {0}


def test_same_seed_same_bytes_and_the_first_do_not_depend_on_how_many():
    assert load(n=13) == load(n=13) == load(n=15)[:13]
    assert load(n=3, seed=1) != load(n=3)
    assert len({sample.context for sample in load(n=20)}) == 20


def test_a_length_without_room_is_refused_with_what_it_takes():
    with pytest.raises(UserError, match=r"needle@60: too short, its smallest sample takes \d+ tokens here"):
        load(60)
    with pytest.raises(UserError, match="needle@4096"):
        find_task("needle")


@pytest.mark.parametrize(
    ("answer", "score"),
    [
        (NEEDLE, 1),
        (f"\n {NEEDLE.upper()} ", 1),
        ("eat a sandwich and sit in Dolores Park", 2 * 8 / (8 + 21)),  # 21 words in the needle, all 8 are among them
        ("Sitting in parks", 2 * 3 / (3 + 21)),  # stemmed: sit in park
        ("in in in", 2 * 2 / (3 + 21)),  # it stands twice in the needle
        ("Visit museums.", 0),
    ],
)
def test_scores_by_hand(answer, score):
    sample = load(n=3)[2]
    expected = {"score": pytest.approx(score), "answered": True, "depth": 22}
    assert TASK.score(answer, sample) == expected


@pytest.mark.parametrize("answer", ["", " \n", "...", "東京"])
def test_an_answer_without_a_word_is_unanswered(answer):
    assert TASK.score(answer, load(n=1)[0]) == {"score": 0, "answered": False, "depth": 0}


def test_scores_are_those_of_rouge_score():
    scorer = pytest.importorskip("rouge_score.rouge_scorer", reason="pip install rouge-score").RougeScorer(
        ["rouge1"], use_stemmer=True
    )
    rng, sample = random.Random(0), load(n=1)[0]
    pool = [*NEEDLE.split(), "sandwiches,", "parks'", "don't", "Sunny-day", "naïve", "running", "12.5", "été"]
    for _ in range(300):
        answer = " ".join(rng.choices(pool, k=rng.randint(1, 25)))
        theirs = scorer.score(NEEDLE, answer)["rouge1"].fmeasure
        assert TASK.score(answer, sample)["score"] == pytest.approx(theirs, abs=1e-9)


@pytest.mark.parametrize("length", [512, 2048])
def test_lengths_in_the_checkpoints_own_tokens(length, smollm2):
    chat = read_chat(smollm2)
    samples = load(length, count=counter(chat))
    gaps = [length - counter(chat)(sample) - 30 for sample in samples]
    assert min(gaps) >= 0 and max(gaps) < 8  # tokens of a word


def test_real_essays_hold_the_needle_once():
    root = data_root()
    if root is None or not (root / "essays").is_dir():
        pytest.skip("no essays/ under NANOKV_DATA")
    for sample in load(4096, data=root):
        around_the_needle(sample)
