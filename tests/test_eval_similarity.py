"""ROUGE-L and edit similarity against hand-computed cases and against their formulas without a library."""

import importlib
import random
import sys

import pytest

pytest.importorskip("rouge", reason="pip install -r eval/requirements.txt")
pytest.importorskip("rapidfuzz", reason="pip install -r eval/requirements.txt")

import naive_text
from rouge import Rouge

from eval.similarity import edit_similarity, rouge_l
from nanokv import UserError


def test_rouge_l_by_hand():
    # distinct words 7 and 7; LCS the-cat-on-mat, then slept ("it" stands before it in one, behind it in the other)
    assert rouge_l("the cat on mat. dogs slept it", "the cat sat on the mat. it slept.") == pytest.approx(5 / 7)
    # one sentence each: LCS a-b of 3 and of 4 distinct words: P = 2/3, R = 2/4
    assert rouge_l("a b c", "a x b y") == pytest.approx(4 / 7)
    assert rouge_l("Ann slept.", "ann slept.") == pytest.approx(1 / 2)  # case counts


@pytest.mark.parametrize(("pred", "gold"), [("", "a b."), ("...", "a b."), ("a b", ""), ("a b", "."), ("x", "a b.")])
def test_rouge_l_without_a_common_word_or_a_sentence_is_zero(pred, gold):
    assert rouge_l(pred, gold) == 0


def test_rouge_l_equals_its_formula_on_random_texts():
    rng = random.Random(0)
    words = [*"abcdefghijklmnopqrst", "u.", "v.", "w..", "."]
    values = []
    for _ in range(300):
        pred, gold = (" ".join(rng.choices(words, k=rng.randint(1, 40))) for _ in range(2))
        values.append(rouge_l(pred, gold))
        assert values[-1] == pytest.approx(naive_text.rouge_l(pred, gold), abs=1e-12), (pred, gold)
    assert len({round(v, 3) for v in values}) > 50


def test_a_sentence_too_long_for_the_librarys_recursion_is_scored():
    pred = " ".join(f"w{i}" for i in range(20))
    gold = pred + " " + " ".join(f"z{i}" for i in range(1500))
    with pytest.raises(RecursionError):
        Rouge(metrics=["rouge-l"]).get_scores(pred, gold)
    limit = sys.getrecursionlimit()
    assert rouge_l(pred, gold) == pytest.approx(2 * 20 / (20 + 1520))
    assert sys.getrecursionlimit() == limit


@pytest.mark.parametrize(
    ("pred", "gold", "expected"),
    [
        ("x = 1", "x = 2", 0.8),  # 4 of 5 and 5 characters: 8 / 10
        ("abcd", "acbd", 0.75),  # LCS abd or acd: 6 / 8
        ("abc", "axxbxxc", 0.6),  # 6 / 10
        ("ab", "cab", 0.8),
        ("return x", "    return x", 0.8),  # indentation counts: 16 / 20
        ("abc", "abc", 1),
        ("abc", "xyz", 0),
        ("", "abc", 0),
        ("a", "abbbb", 0.33),  # 2 / 6 = 33.3 percent, whole
    ],
)
def test_edit_similarity_by_hand(pred, gold, expected):
    assert edit_similarity(pred, gold) == expected


def test_edit_similarity_equals_its_formula_on_random_lines():
    rng = random.Random(1)
    for _ in range(300):
        pred, gold = ("".join(rng.choices("abc ()=", k=rng.randint(1, 30))) for _ in range(2))
        assert edit_similarity(pred, gold) == naive_text.edit_similarity(pred, gold), (pred, gold)


def test_a_missing_library_is_named_with_what_installs_it(monkeypatch):
    monkeypatch.delitem(sys.modules, "eval.similarity")
    monkeypatch.setitem(sys.modules, "rouge", None)  # as where it is not installed
    with pytest.raises(UserError, match=r"^rouge is missing: pip install -r eval/requirements\.txt$"):
        importlib.import_module("eval.similarity")
