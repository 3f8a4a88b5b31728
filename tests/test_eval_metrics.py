"""Published text metrics against cases worked out by hand, and cutting prompts in the middle."""

import pytest

from eval.cut import cut_middle
from eval.metrics import (
    best,
    classification,
    code_line,
    count,
    first_line,
    normalized_words,
    qa_f1,
    readable,
    retrieval,
    string_match_all,
    string_match_part,
    token_f1,
)
from nanokv import UserError


@pytest.mark.parametrize(
    ("pred", "gold", "expected"),
    [
        (["red", "red", "fox"], ["red", "fox", "fox"], 2 / 3),  # one red and one fox in common: 4 / 6
        (["a"], ["a", "b", "c"], 1 / 2),  # precision 1, recall 1/3
        (["a", "b"], ["b", "a"], 1),
        (["a"], ["b"], 0),
        ([], ["a"], 0),
        ([], [], 0),
    ],
)
def test_token_f1_counts_the_overlap_with_multiplicity(pred, gold, expected):
    assert token_f1(pred, gold) == pytest.approx(expected)


def test_best_takes_the_highest_of_all_references_after_trimming():
    assert best(lambda p, g: float(p == g), " two\n", ["one", "two ", "three"]) == 1
    assert best(lambda p, g: len(g) / 10, "", ["  abc  ", "abcde", "a"]) == 0.5


def test_normalised_words_lose_case_punctuation_and_articles_but_not_parts_of_words():
    assert normalized_words("The cat's hat -- a U.S.A. \tanthem, an A-team!") == [
        "cats",
        "hat",
        "usa",
        "anthem",
        "ateam",
    ]
    assert normalized_words("“the”") == ["“", "”"]  # ASCII punctuation only


def test_qa_f1_by_hand():
    assert qa_f1("The nine miles.", "nine miles, for oil") == pytest.approx(2 * 2 / (2 + 4))
    assert qa_f1("the", "a") == 0


def test_first_line_is_the_first_that_is_not_empty():
    assert first_line("\n\nFood\nQuestion: ...") == "Food"
    assert first_line(" \nFood") == " "  # upstream drops line breaks only
    assert first_line("") == ""


CLASSES = ["City", "Food", "Other", "Other location", "location", "Reason"]


@pytest.mark.parametrize(
    ("pred", "gold", "expected"),
    [
        ("Food", "Food", 1),
        ("It is Food or City or Reason", "Food", 1 / 3),
        ("City", "Food", 0),
        ("food", "Food", 0),  # case counts
        ("Other location", "Other location", 1),  # "Other" and "location" are only parts of the gold's name
        ("Other location", "location", 1 / 3),  # and here the other two count against it
        ("", "Food", 0),
    ],
)
def test_classification_shares_the_point_among_the_classes_named(pred, gold, expected):
    assert classification(pred, gold, CLASSES) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("pred", "expected"),
    [("7", 1), ("Paragraph 7.", 1), ("7, 17 or 7", 2 / 3), ("77", 0), ("07", 0), ("seven", 0), ("", 0)],
)
def test_count_and_retrieval_are_the_share_of_the_numbers_that_are_right(pred, expected):
    assert count(pred, "7") == pytest.approx(expected)
    assert retrieval(pred, "Paragraph 7") == pytest.approx(expected)


def test_a_retrieval_reference_without_a_number_is_refused():
    with pytest.raises(UserError, match=r'should read "Paragraph N": \'seven\''):
        retrieval("7", "seven")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("\n\n    x = 1\ny = 2", "    x = 1"),
        ("```python\n# first\n// second\nx = 1", "x = 1"),
        ("x = 1  # one\n\ny = 2", ""),  # the empty line is a line
        ("# only", ""),
        ("\n", ""),
    ],
)
def test_code_line_is_the_first_without_backtick_or_comment_sign(text, line):
    assert code_line(text) == line


def test_readable_turns_control_characters_into_line_breaks_and_trims():
    assert readable("\x00\x1f  one\ttwo\x07three \n") == "one\ntwo\nthree"


def test_string_match_all_is_a_share_and_string_match_part_is_any():
    golds = ["blue", "Green", "red", "black"]
    assert string_match_all("GREEN and blues", golds) == 1 / 2  # case ignored, inside longer words too
    assert string_match_part("GREEN and blues", golds) == 1
    assert string_match_all("white", golds) == string_match_part("white", golds) == 0
    assert string_match_all("12\x0034", ["1234"]) == 0  # a control character parts words


@pytest.mark.parametrize(
    ("n", "limit", "kept"),
    [
        (10, 4, [0, 1, 8, 9]),
        (10, 5, [0, 1, 8, 9]),  # int(5 / 2) at either end
        (10, 2, [0, 9]),
        (10, 9, [0, 1, 2, 3, 6, 7, 8, 9]),
        (9, 9, list(range(9))),
        (3, 10, [0, 1, 2]),
        (0, 4, []),
    ],
)
def test_a_long_prompt_is_cut_in_the_middle(n, limit, kept):
    assert cut_middle(list(range(n)), limit) == kept


def test_a_limit_that_leaves_nothing_is_refused():
    for limit in (1, 0, -4):
        with pytest.raises(UserError, match=f"a limit of {limit} tokens"):
            cut_middle([1, 2, 3], limit)
