"""One sentence hidden in essays, length by depth (gkamradt/LLMTest_NeedleInAHaystack), without a judge.

Asked and scored as the KV-cache papers' code does: a raw string, 30 new tokens, ROUGE-1 against the needle instead of
GPT's mark from 1 to 10. That code leaves 200 tokens of the length free and measures depth in tokens; here the text
fills the length to the last word, and depth is measured in words. `eval.table --by depth` gives the heat map's rows.
Models may know this sentence: ruler/niah_single_2, a random number in the same essays, is the control.
"""

import re
from bisect import bisect_right
from functools import partial

from eval.essay import essays
from eval.metrics import token_f1
from eval.task import Request, Sample, Task
from eval.tasks import ruler
from nanokv import UserError

try:
    from nltk.stem.porter import PorterStemmer
except ImportError as error:
    raise UserError(f"{error.name} is missing: pip install -r eval/requirements.txt") from error

NEEDLE = "\nThe best thing to do in San Francisco is eat a sandwich and sit in Dolores Park on a sunny day.\n"
CONTEXT = "<|im_start|> This is a very long story book: <book> {} </book>.\n"
QUESTION = " Based on the content of the book, Question: The best thing to do in San Francisco is: \nAnswer:"
DEPTHS = [round(100 * i / 9) for i in range(10)]  # percent
SENTENCE_END = re.compile(r"""[.!?]["')\]”’]*(?=\s|$)""")
STEMMER = PorterStemmer()
SCALE = "ROUGE-1 F of the needle's sentence, words stemmed (rouge-score's)"


def load(request: Request) -> list:
    """Sample i has depth i modulo ten, and a haystack that begins elsewhere in the essays every ten samples.

    meta: "depth" in percent of the haystack's words, and the essays' name as "haystack".
    """
    text, name = essays(request.data, request.seed, request.length)  # no word takes less than a token
    samples = []
    for index in range(request.n):
        turn, place = divmod(index, len(DEPTHS))
        if place == 0:
            haystack = Haystack(beginning_at_a_sentence(request, text, turn))
        build = partial(sample, haystack, name, index, DEPTHS[place])
        samples.append(ruler.fit_or_refuse(request, "needle", build))
    return samples


def beginning_at_a_sentence(request: Request, text: str, turn: int) -> str:
    """The text turned about so that it begins with another sentence; as it stands at turn 0."""
    if turn == 0:
        return text
    begin = ruler.stream(request, "needle", turn).choice([0, *(end.end() for end in SENTENCE_END.finditer(text))])
    return text[begin:].lstrip() + " " + text[:begin]


class Haystack:
    """A text, and where in it words and sentences end."""

    def __init__(self, text: str):
        self.text = text
        self.words = [0, *(word.end() for word in re.finditer(r"\S+", text))]
        self.sentences = [0, *(end.end() for end in SENTENCE_END.finditer(text))]

    def with_needle(self, size: int, depth: int) -> str:
        """Its first `size` words with the needle behind the last sentence that ends in the first `depth` percent.

        At 100 the needle ends the text, as published; the sentence that is cut off there is given a full stop.
        """
        end = self.words[size]
        if depth == 100:
            return self.text[:end].rstrip(",;:") + ("" if end in self.sentences else ".") + NEEDLE
        limit = self.words[size * depth // 100]
        border = self.sentences[bisect_right(self.sentences, limit) - 1]
        return self.text[:border] + NEEDLE + self.text[border:end]


def sample(haystack: Haystack, name: str, index: int, depth: int, size: int) -> Sample:
    """One sample with `size` words of haystack."""
    return Sample(
        id=str(index),
        context=CONTEXT.format(haystack.with_needle(size, depth)),
        question=QUESTION,
        gold=(NEEDLE.strip(),),
        max_new_tokens=30,
        chat=False,
        stop="newline",
        meta={"depth": depth, "haystack": name},
    )


def score(answer: str, sample: Sample) -> dict:
    pred, gold = stems(answer), stems(sample.gold[0])
    return {"score": token_f1(pred, gold), "answered": bool(pred), "depth": sample.meta["depth"]}


def stems(text: str) -> list:
    """rouge-score's tokens: runs of a-z and 0-9 in lower case, those of more than three characters stemmed."""
    return [STEMMER.stem(word) if len(word) > 3 else word for word in re.findall("[a-z0-9]+", text.lower())]


TASKS = {"needle": Task("needle", load, score, SCALE, needs_length=True)}
