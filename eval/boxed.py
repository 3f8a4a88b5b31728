r"""The answer of a mathematics problem: what stands in the last \boxed{...}, its braces balanced.

`\fbox{5}` counts as a box, and so does a box without braces, `\boxed 5`: up to the next white space, "$", `\)` or `\]`,
where it begins with a digit, a sign, a bracket or a command, so that prose which only names \boxed is none. `\{` and
`\}` are text, not braces. A box that never closes is no answer, nor does an earlier one stand in for it.

A thinking block that has not ended has no answer yet: boxes from its <think> on do not count. Where the chat template
itself opens the block, the answer has no <think>, and boxes in it count.
"""

import re

OPENER = re.compile(r"\\(?:boxed|fbox)\s*(?:(\{)|(?=[-+\d([]|\\[^)\]]))")
BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
WORD = re.compile(r"(?:(?!\\[)\]])[^\s$])*")


def last_boxed(text: str) -> str | None:
    """What the last box holds; None without a box, or where the last one is not closed."""
    text = without_open_thinking(text)
    openers = list(OPENER.finditer(text))
    if not openers:
        return None
    opener = openers[-1]
    if opener[1]:
        return up_to_its_brace(text, opener.end())
    return WORD.match(text, opener.end())[0].rstrip(".,;:") or None


def up_to_its_brace(text: str, start: int) -> str | None:
    """The text from `start`, just behind an opening brace, to the brace that closes it; None where none does."""
    depth = 1
    for mark in BRACE.finditer(text, start):
        depth += {"{": 1, "}": -1}.get(mark[0], 0)
        if depth == 0:
            return text[start : mark.start()]
    return None


def without_open_thinking(text: str) -> str:
    """The text before a <think> that no </think> follows."""
    begin = text.find("<think>", text.rfind("</think>") + 1)
    return text if begin < 0 else text[:begin]


class BoxedWatch:
    r"""Looks for the first complete \boxed{...} in a text that comes in pieces; each character is looked at once.

    Only boxes with braces end an answer, as in the released code of arXiv 2607.27600, and none inside a thinking block:
    there it would cut off the answer that the block leads to.
    """

    def __init__(self):
        self.found = self.thinking = self.escaped = False
        self.tail = ""  # the last characters, as many as the longest mark has
        self.open = []  # for each open brace from the first box on: whether it is a box's

    def push(self, piece: str) -> bool:
        """True once a box is complete, and from then on."""
        for character in piece:
            self.take(character)
        return self.found

    def take(self, c: str):
        self.tail = (self.tail + c)[-len("</think>") :]
        if self.tail.endswith(("<think>", "</think>")):
            self.thinking = self.tail.endswith("<think>")
            self.open.clear()
        elif not self.thinking and not self.escaped:
            self.count_brace(c)
        self.escaped = c == "\\" and not self.escaped

    def count_brace(self, c: str):
        if c == "{":
            box = self.tail.endswith("\\boxed{")
            if box or self.open:
                self.open.append(box)
        elif c == "}" and self.open:
            self.found |= self.open.pop()
