"""RULER: the word lists, variable tracking, common words and frequent words."""

import math
import random
import re
from collections import Counter
from importlib import metadata

import pytest
from ruler_help import gap, load, perfect_and_shuffled, split_at

from eval.tasks import ruler_vt, ruler_words
from nanokv import UserError

VT = (
    "Memorize and track the chain(s) of variable assignment hidden in the following text.\n\n{context}\n"
    "Question: Find all variables that are assigned the value {value} in the text above.",
    " Answer: According to the chain(s) of variable assignment in the text above, 5 variables are assigned the value"
    " {value}, they are: ",
)
CWE = (
    "Below is a numbered list of words. In these words, some appear more often than others. Memorize the ones that"
    " appear most often.\n{context}\nQuestion: What are the 10 most common words in the above list?",
    " Answer: The top 10 words that appear most often in the list are:",
)
FWE = (
    "Read the following coded text and track the frequency of each coded word. Find the three most frequently appeared"
    " coded words. {context}\nQuestion: Do not provide any explanation. Please ignore the dots '....'. What are the"
    " three most frequently appeared words in the above coded text?",
    " Answer: According to the coded text above, the three most frequently appeared words are:",
)
NOISE = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again."


def test_the_word_lists_are_the_pinned_ones(monkeypatch):
    assert [len(ruler_words.word_list(kind)) for kind in ("adjective", "noun")] == [912, 6782]
    assert len(ruler_words.all_words()) == 8166 and all(word == word.strip() for word in ruler_words.all_words())
    adjective, noun = ruler_words.word_list("adjective"), ruler_words.word_list("noun")
    first = ruler_words.pair(random.Random(5))
    assert any(first == f"{a}-{n}" for a in adjective if first.startswith(a) for n in noun)
    for version in ("2.2.0", None):
        monkeypatch.setattr(metadata, "version", lambda name, v=version: v or missing(name))
        with pytest.raises(UserError, match=r"wonderwords 3.0.1.*pip install -r eval/requirements.txt"):
            ruler_words.word_list.__wrapped__("noun")


def missing(name: str):
    raise metadata.PackageNotFoundError(name)


def example_and_rest(sample, start: str, end: str) -> tuple:
    """(the solved example without its last line breaks, the sample's own text)."""
    text = sample.context + sample.question
    cut = text.rindex(start)
    example = text[:cut]
    assert example.endswith(end) and example.count(start) == 1
    return example.removesuffix(end), text[cut:]


def variables_with(value: str, text: str) -> list:
    """Names that reach the value, by following the assignments one line at a time."""
    known = {}
    for name, target in re.findall(r"^VAR (\w+) = (?:VAR )?(\w+) ?$", text, re.MULTILINE):
        known[name] = known.get(target, target)
    return [name for name in known if known[name] == value]


def test_variable_tracking_is_solved_by_following_the_assignments():
    for sample in load("ruler/vt", 1024):
        example, own = example_and_rest(sample, "Memorize and track", "\n\n")
        fields = split_at(VT[0], own)
        names = variables_with(fields["value"], fields["context"])
        assert names == list(sample.gold) and all(re.fullmatch("[A-Z]{5}", name) for name in names)
        assert sample.prefix == VT[1].replace("{value}", fields["value"])
        assert sample.question.startswith("Question: Find all")
        lines = fields["context"].split("\n")
        assert sum(line.endswith(" ") for line in lines) == 4 and len(lines) - 5 == lines.count(NOISE)
        assert gap(sample, 1024) in range(len(NOISE.split()))

        solved, answer = example.split(", they are:  ")
        fields = split_at((VT[0] + VT[1]).removesuffix(", they are: ").replace("value} in", "v2} in"), solved)
        assert fields["value"] == fields["v2"] and answer.split() == variables_with(fields["value"], fields["context"])
        assert all(re.fullmatch("[A-Z]{3}", name) for name in answer.split())
        assert len((solved + ", they are:").split()) + 30 in range(500 - len(NOISE.split()) + 1, 501)
        assert not re.search(r"[{}]", example)


def test_statements_go_before_distinct_lines_of_noise():
    context, _, _ = ruler_vt.parts(random.Random(0), ["A", "B", "C", "D", "E"], "7", size=5)
    assert context.removesuffix("\n").split("\n")[2::2] == [
        "VAR A = 7",
        *(f"VAR {b} = VAR {a} " for a, b in ["AB", "BC", "CD", "DE"]),
    ]
    assert context.split("\n")[3::2] == [NOISE] * 5


def test_the_solved_chain_keeps_its_places_and_changes_its_names():
    one, other = (example_and_rest(s, "Memorize and track", "\n\n")[0] for s in load("ruler/vt", 2048, n=2))
    assert one != other
    assert re.sub(r"\b[A-Z]{3}\b|\d{5}", "_", one) == re.sub(r"\b[A-Z]{3}\b|\d{5}", "_", other)


def listed(text: str) -> list:
    """The words of "1. a 2. b ...", whose numbers must be 1, 2, 3, ..."""
    numbers, found = zip(*re.findall(r"(\d+)\. (.+?)(?= \d+\. |$)", text))
    assert list(numbers) == [str(i) for i in range(1, len(found) + 1)]
    return list(found)


@pytest.mark.parametrize(
    ("length", "common", "other", "example"), [(1024, 6, 1, (3, 1, 10)), (4096, 30, 3, (10, 3, 30))]
)
def test_common_words_are_those_counted_most(length, common, other, example):
    for sample in load("ruler/cwe", length, n=2):
        solved, own = example_and_rest(sample, "Below is a numbered", "\n")
        counts = Counter(listed(split_at(CWE[0], own)["context"]))
        assert {word for word, n in counts.items() if n == common} == set(sample.gold) and len(sample.gold) == 10
        assert set(counts.values()) == {common, other} and len(counts) == sample.meta["n_words"]
        assert sample.prefix == CWE[1] and sample.question.startswith("Question: What")
        assert gap(sample, length) in range(2 * other + 1)

        question, answer = solved.split(CWE[1] + " ")
        counts = Counter(listed(split_at(CWE[0], question)["context"]))
        often, seldom, n_seldom = example
        assert Counter(counts.values()) == {often: 10, seldom: n_seldom}
        assert {word for word, n in counts.items() if n == often} == set(listed(answer))


def test_common_words_take_pairs_where_the_lists_have_too_few():
    short, long = load("ruler/cwe", 40_000, n=1)[0], load("ruler/cwe", 70_000, n=1)[0]
    assert short.meta["words"] == "wonderwords" and short.meta["n_words"] <= 8166
    assert long.meta["words"] == "adjective-noun pairs" and long.meta["n_words"] > 8166
    assert all("-" in word for word in long.gold)


@pytest.mark.parametrize("length", [398, 512, 1024, 4096])
def test_frequent_words_fall_as_the_square_of_their_rank(length):
    free = length - 50 - 30
    for sample in load("ruler/fwe", length):
        counts = Counter(split_at(FWE[0], sample.context + sample.question)["context"].split(" ")).most_common()
        assert counts[0][0] == "..." and {word for word, _ in counts[1:4]} == set(sample.gold)
        assert counts[3][1] > counts[4][1] and all(re.fullmatch("[a-z]{6}", word) for word, _ in counts[1:])
        assert len({word for word, _ in counts}) <= free // 50
        step = free // 32
        by_size = [zipf(free // 6 + i * step, free // 50) for i in range(40)]
        assert [n for _, n in counts] in by_size
        assert gap(sample, length) in range(step + 1)
        assert sample.prefix == FWE[1] and sample.question.startswith("Question: Do not")


def test_frequent_words_refuse_a_text_whose_fourth_and_fifth_rank_may_come_out_equal():
    with pytest.raises(UserError, match="ruler/fwe@397: too short, its smallest sample takes 398 tokens"):
        load("ruler/fwe", 397)
    assert zipf(52, 6)[3] == zipf(52, 6)[4] and all(zipf(n, 6)[3] > zipf(n, 6)[4] for n in range(53, 2000))


def zipf(n: int, ranks: int) -> list:
    """The counts above 0 of a text of n words."""
    found = [math.floor(6 * n / (math.pi * rank) ** 2) for rank in range(1, ranks + 1)]
    return [count for count in found if count]


@pytest.mark.parametrize(("task", "length", "chance"), [("vt", 1024, 0), ("cwe", 1024, 0.01), ("fwe", 512, 0)])
def test_counting_and_tracking_score_one_for_the_answer_and_chance_for_another_sample_s(task, length, chance):
    perfect, shuffled = perfect_and_shuffled(f"ruler/{task}", load(f"ruler/{task}", length, n=20))
    assert perfect == 1 and shuffled <= chance  # two samples share 1 in 800 common words; some are part of others
