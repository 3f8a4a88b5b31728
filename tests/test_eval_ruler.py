"""RULER: the table, the size search, what all 13 tasks promise, and the eight needle tasks."""

import random
import re

import pytest
from ruler_help import TASKS, gap, load, perfect_and_shuffled

from eval.tasks import ruler, ruler_niah
from nanokv import UserError
from nanokv.chat import encode_chat, read_chat

NIAH = [task for task in TASKS if "niah" in task]
LENGTHS = {"ruler/qa_1": 256, "ruler/qa_2": 256, "ruler/vt": 1024, "ruler/cwe": 1024}  # 512 for the others
PLURAL = (
    "Some special magic numbers are hidden within the following text. Make sure to memorize it. I will quiz you about"
    " the numbers afterwards.\n{context}\nWhat are all the special magic numbers for {query} mentioned in the provided"
    " text?",
    " The special magic numbers for {query} mentioned in the provided text are",
)
SINGULAR = (
    "A special magic {kind} is hidden within the following text. Make sure to memorize it. I will quiz you about the"
    " {kind} afterwards.\n{context}\nWhat is the special magic {kind} for {query} mentioned in the provided text?",
    " The special magic {kind} for {query} mentioned in the provided text is",
)
# task: (needles, of which are asked for, haystack, value, answers, words of one line or step)
EXPECTED = {
    "ruler/niah_single_1": (1, 1, "noise", "number", 1, 19),
    "ruler/niah_single_2": (1, 1, "essay", "number", 1, 10),
    "ruler/niah_single_3": (1, 1, "essay", "uuid", 1, 10),
    "ruler/niah_multikey_1": (4, 1, "essay", "number", 1, 10),
    "ruler/niah_multikey_2": (1, 1, "needle", "number", 1, 12),
    "ruler/niah_multikey_3": (1, 1, "needle", "uuid", 1, 10),
    "ruler/niah_multivalue": (4, 1, "essay", "number", 4, 10),
    "ruler/niah_multiquery": (4, 4, "essay", "number", 4, 10),
}
FORTY = {0, 3, 5, 8, 10, 13, 15, 18, 21, 23, 26, 28, 31, 33, 36, 38, 41, 44, 46, 49} | {
    *(51, 54, 56, 59, 62, 64, 67, 69, 72, 74, 77, 79, 82, 85, 87, 90, 92, 95, 97, 100)
}
VALUE = {"number": r"[1-9]\d{6}", "uuid": r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"}


def found_needles(text: str, kind: str) -> list:
    """[(sentence, key, value)] in the order of the text."""
    pattern = rf"(One of the special magic {kind}s for ([^:]+) is: ({VALUE[kind]})\.)"
    return re.findall(pattern, text)


def haystack(sample) -> str:
    """What stands between the instruction's line and the question's."""
    return sample.context.partition("afterwards.\n")[2].removesuffix("\n")


def test_the_table_has_the_thirteen_tasks_with_their_answer_lengths():
    new = {"niah": 128, "vt": 30, "cwe": 120, "fwe": 50, "qa": 32}
    assert len(TASKS) == 13
    for task in TASKS:
        samples = load(task, LENGTHS.get(task, 512), n=1)
        assert samples[0].max_new_tokens == new[re.match(r"ruler/([a-z]+)", task)[1]]
        assert TASKS[task].needs_length and TASKS[task].name == task


@pytest.mark.parametrize("task", TASKS)
def test_same_seed_same_samples_and_the_first_do_not_depend_on_how_many(task):
    length = LENGTHS.get(task, 512)
    many = load(task, length, n=3)
    assert load(task, length, n=2) == many[:2]
    assert load(task, length, n=3) == many
    assert load(task, length, n=3, seed=1) != many
    assert len({s.context for s in many}) == 3


@pytest.mark.parametrize("task", NIAH)
def test_needles_stand_once_each_at_the_stated_depth_and_answer_the_question(task):
    n_needles, n_asked, kind_of_text, kind, n_answers, _ = EXPECTED[task]
    for sample in load(task):
        text = haystack(sample)
        query = re.search(r" for (.+) mentioned", sample.question)[1]
        asked = re.split(r", and |, ", query)
        needles = found_needles(text, kind)
        mine = [needle for needle in needles if kind_of_text != "needle" or needle[1] in asked]
        assert len(mine) == n_needles and len(asked) == n_asked
        assert all(text.count(sentence) == 1 for sentence, _, _ in needles)
        answers = {value for _, key, value in needles if key in asked}
        assert answers == set(sample.gold) and len(sample.gold) == n_answers
        before, total = parts_before(text, [sentence for sentence, _, _ in mine], kind_of_text)
        assert before == [int(total * depth / 100 + 1e-9) for depth in sample.meta["depths"]]
        assert kind_of_text != "essay" or set(sample.meta["depths"]) <= FORTY


def parts_before(text: str, needles: list, kind_of_text: str) -> tuple:
    """(sentences or lines of the haystack before each needle, in all), the needles themselves not counted."""
    if kind_of_text != "essay":
        lines = text.split("\n")
        return [lines.index(needle) for needle in needles], len(lines) - len(needles)
    pieces = [piece.strip() for piece in re.split("|".join(map(re.escape, needles)), text)]
    counts = [len(re.split(r"(?<=[.!?]) ", piece)) if piece else 0 for piece in pieces]
    return [sum(counts[: i + 1]) for i in range(len(needles))], sum(counts)


@pytest.mark.parametrize("task", NIAH)
def test_needle_templates_are_the_published_ones(task):
    _, _, _, kind, n_answers, _ = EXPECTED[task]
    for sample in load(task, n=2):
        query = re.search(r" for (.+) mentioned", sample.question)[1]
        text, prefix = (t.replace("{query}", query) for t in (PLURAL if n_answers > 1 else SINGULAR))
        text, prefix = text.replace("{kind}", kind), prefix.replace("{kind}", kind)
        assert sample.context + sample.question == text.replace("{context}", haystack(sample))
        assert sample.prefix == prefix
        assert sample.question.startswith("What ")


@pytest.mark.parametrize("task", NIAH)
@pytest.mark.parametrize("length", [512, 1500])
def test_needle_samples_fill_the_length_to_within_one_line(task, length):
    gaps = [gap(sample, length) for sample in load(task, length)]
    assert min(gaps) >= 0 and max(gaps) < EXPECTED[task][-1]


def test_several_needles_among_lines_stand_apart_and_the_first_comes_last():
    text, depths = ruler_niah.into_lines(random.Random(0), ["-"] * 10, ["a", "b", "c"])
    rest, places = list(text.replace("\n", "")), []
    for needle in "cba":
        places.append(rest.index(needle))
        rest.remove(needle)
    assert places == sorted(set(places)) and rest == ["-"] * 10
    assert depths == [10 * place for place in places]


def test_the_haystack_is_the_user_s_essays_where_there_are_any(tmp_path):
    (tmp_path / "essays").mkdir()
    (tmp_path / "essays" / "a.txt").write_text("A hat\nis red.  So  it is. " * 200, encoding="utf-8")
    mine = load("ruler/niah_single_2", n=1, data=tmp_path)[0]
    assert mine.meta["haystack"] == "essays" and "A hat is red. So it is. A hat is red." in mine.context
    assert load("ruler/niah_single_2", n=1)[0].meta["haystack"] == "generated"
    assert load("ruler/niah_single_1", n=1)[0].meta["haystack"] == "noise"


@pytest.mark.parametrize("task", NIAH)
def test_needles_score_one_for_the_answer_and_nothing_for_another_sample_s(task):
    assert perfect_and_shuffled(task, load(task, n=8)) == (1, 0)


def test_a_list_of_needles_scores_the_share_found():
    sample = load("ruler/niah_multivalue", n=1)[0]
    score = TASKS["ruler/niah_multivalue"].score
    assert score(f"{sample.gold[2]}\x00{sample.gold[0]}", sample) == {"score": 0.5, "answered": True}
    assert score(" \x1f\n", sample) == {"score": 0, "answered": False}


@pytest.mark.parametrize("task", ["ruler/niah_single_1", "ruler/vt", "ruler/cwe"])
def test_a_length_too_short_is_refused_with_what_the_smallest_sample_takes(task):
    with pytest.raises(UserError, match=rf"{task}@60: too short, its smallest sample takes \d+ tokens") as refused:
        load(task, 60, n=1)
    enough = int(re.search(r"takes (\d+)", str(refused.value))[1])
    with pytest.raises(UserError, match="too short"):
        load(task, enough - 1, n=1)
    assert gap(load(task, enough, n=1)[0], enough) < 19


@pytest.mark.parametrize(
    "task", ["ruler/niah_single_3", "ruler/niah_multikey_3", "ruler/vt", "ruler/cwe", "ruler/qa_1"]
)
def test_lengths_hold_in_a_real_tokenizer_with_its_chat_wrapper(task, smollm2):
    chat = read_chat(smollm2)

    def count(sample) -> int:
        text = [{"role": "user", "content": sample.context + sample.question}]
        return len(encode_chat(chat, text)) + len(chat.tokenizer.encode(sample.prefix, add_special_tokens=False).ids)

    length = 384 if task == "ruler/qa_1" else 1024
    gaps = [gap(sample, length, count) for sample in load(task, length, n=2, count=count)]
    longest_unit = 90  # tokens: two uuids in a needle; a paragraph of the committed file is shorter
    assert min(gaps) >= 0 and max(gaps) < longest_unit


@pytest.mark.parametrize("shape", ["line", "steps", "bent", "flat then steep"])
def test_the_size_search_finds_what_trying_every_size_finds(shape):
    rng, tried = random.Random(shape), []
    rise = {"line": lambda s: 7, "steps": lambda s: rng.choice((1, 30)), "bent": lambda s: 1 + s // 9}
    grow = rise.get(shape, lambda s: 0 if s < 300 else 25)
    counts = [40]
    for size in range(1, 700):
        counts.append(counts[-1] + grow(size))

    def tokens(size: int) -> int:
        tried.append(size)
        return counts[size - 1]

    for room in (39, 40, 41, 99, 500, 2000, 10**6):
        fitting = [size for size in range(1, 601) if counts[size - 1] <= room]
        tried.clear()
        assert ruler.largest_fit(tokens, room, 1, 600) == (max(fitting) if fitting else None)
        assert len(tried) <= 23 and max(tried) <= 600
