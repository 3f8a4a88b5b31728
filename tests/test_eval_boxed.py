r"""Reading \boxed{...}: balanced braces, other spellings, unclosed boxes, thinking blocks, and a text in pieces."""

import random
import time

import pytest

from eval.boxed import BoxedWatch, last_boxed

CASES = [
    (r"so $\boxed{42}$.", "42"),
    (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
    (r"\boxed{\sqrt{\frac{a}{b^{c}}}} and {more}", r"\sqrt{\frac{a}{b^{c}}}"),
    (r"\boxed{1} or \boxed{2}", "2"),
    (r"\boxed{a = \boxed{b}}", "b"),
    (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
    (r"\boxed{\left\{x\right.}", r"\left\{x\right."),  # an escaped brace that no other closes
    (r"\boxed{a\\}", r"a\\"),  # the backslash before the brace is itself escaped
    (r"\\boxed{3}", "3"),
    ("\\boxed{1\n2}", "1\n2"),
    (r"\boxed{}", ""),
    (r"\boxed {7}", "7"),
    (r"\fbox{7}", "7"),
    (r"\boxed{5} or \fbox{6}", "6"),
    (r"$\boxed 5$", "5"),
    (r"It is \boxed 5.", "5"),
    (r"\(\boxed -5\), not 6", "-5"),
    (r"\boxed5", "5"),
    (r"\boxed\frac{1}{2}$", r"\frac{1}{2}"),
    (r"\boxed{5} is what I put in \boxed as asked, in \(\boxed\)", "5"),
]
NONE = [
    "",
    "the answer is 42",
    r"\boxed",
    r"\boxed{42",
    r"\boxed{\frac{1}{2}",
    r"\boxed{1} \boxed{2",  # a later box that does not close
    r"\boxed{1\}",
    r"\boxedword{1}",
    r"boxed{1}",
    "{" * 10_000,
    r"\boxed" + "{" * 10_000,
]
THINKING = [
    (r"<think>\boxed{1}", None, False),
    (r"\boxed{1} <think> \boxed{2}", "1", True),
    (r"<think>\boxed{1}</think> It is \boxed{2}", "2", True),
    (r"<think>\boxed{1}</think> It is two", "1", False),
    (r"<think>a</think><think>\boxed{2}", None, False),
    (r"no opening tag \boxed{1} </think> \boxed{2}", "2", True),
    (r"<think>\boxed{ </think> } \boxed{2}", "2", True),
    (r"<thinking>\boxed{2}", "2", True),
]


def push_all(text: str, sizes) -> list:
    """What the watch says behind every piece; `sizes()` gives the length of the next one."""
    watch, said = BoxedWatch(), []
    while text:
        size = sizes()
        said.append(watch.push(text[:size]))
        text = text[size:]
    return said


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_the_last_box_is_read_by_balanced_braces(text, expected):
    assert last_boxed(text) == expected


@pytest.mark.parametrize("text", NONE, ids=lambda text: text[:20])
def test_no_box_or_an_unclosed_one_is_none(text):
    assert last_boxed(text) is None


@pytest.mark.parametrize(("text", "expected", "_"), THINKING)
def test_boxes_in_an_unfinished_thinking_block_do_not_count(text, expected, _):
    assert last_boxed(text) == expected


@pytest.mark.parametrize("begin", [r"\boxed{", r"\boxed", r"\boxed ", "<think>", "{", "\\", r"\boxed{1}"])
def test_long_hostile_texts_are_read_in_a_moment(begin):
    text = begin * 20_000
    start = time.perf_counter()
    last_boxed(text)
    BoxedWatch().push(text)
    assert time.perf_counter() - start < 2


def test_the_watch_is_true_from_the_brace_that_closes_the_first_box_on():
    text = r"Take {x}: \frac{1}{2}, so \boxed{\frac{1}{2}}\) and \boxed{3}"
    said = push_all(text, lambda: 1)
    assert said.index(True) == text.index(r"}}\)") + 1 and all(said[said.index(True) :])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((text, expected) for text, _, expected in THINKING),
        (r"\boxed{a \boxed{b}", True),  # the inner box is complete
        (r"\boxed{\{1\}", False),
        (r"\boxed{a\\}", True),
        (r"\boxed{", False),
        (r"}} \boxed{1}", True),
        (r"\fbox{1} \boxed 1 $", False),  # these do not end an answer
        *((text, False) for text in NONE if r"\boxed{1} " not in text),
    ],
    ids=lambda value: str(value)[:20],
)
def test_the_watch_sees_the_same_however_the_text_is_cut(text, expected):
    rng = random.Random(0)
    for sizes in (lambda: 1, lambda: len(text), lambda: rng.randint(1, 5), lambda: rng.randint(1, 9)):
        assert (push_all(text, sizes) or [False])[-1] is expected
