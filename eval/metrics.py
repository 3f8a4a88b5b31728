"""Text metrics as published, each in [0, 1]; a score takes (prediction, gold), `best` the highest over all references.

LongBench's are those of metrics.py in THUDM/LongBench (arXiv 2308.14508), RULER's those of NVIDIA/RULER
(arXiv 2404.06654). ROUGE-L and edit similarity, which need libraries, are in eval/similarity.py.
"""

import re
import string
from collections import Counter
from collections.abc import Callable, Iterable

from nanokv import UserError


def best(score: Callable, pred: str, golds: Iterable[str]) -> float:
    """The highest score(pred, gold) over the references, both trimmed of surrounding white space."""
    return max(score(pred.strip(), gold.strip()) for gold in golds)


def token_f1(pred: list, gold: list) -> float:
    """2c / (p + g) of two token lists, c = size of their multiset overlap; 0 where nothing overlaps."""
    common = sum((Counter(pred) & Counter(gold)).values())
    return 2 * common / (len(pred) + len(gold)) if common else 0.0


def normalized_words(text: str) -> list:
    """Lower case, without ASCII punctuation, without the words a, an, the, split at white space (LongBench, SQuAD)."""
    text = "".join(c for c in text.lower() if c not in string.punctuation)
    return re.sub(r"\b(a|an|the)\b", " ", text).split()


def qa_f1(pred: str, gold: str) -> float:
    """LongBench's F1 over normalised words."""
    return token_f1(normalized_words(pred), normalized_words(gold))


def first_line(text: str) -> str:
    """The first line that is not empty: all that LongBench scores of trec, triviaqa and samsum."""
    return text.lstrip("\n").split("\n")[0]


def classification(pred: str, gold: str, classes: list) -> float:
    """1 / (classes named in pred) if the gold class is one of them, else 0. Case counts.

    A named class that is only a part of the gold's name does not count. Upstream removes those while it walks the list
    and so misses the second of two in a row; here both go.
    """
    named = [c for c in classes if c in pred and (c == gold or c not in gold)]
    return 1 / len(named) if gold in named else 0.0


def count(pred: str, gold: str) -> float:
    """The share of the numbers in pred that equal gold, digit for digit; 0 without a number."""
    numbers = re.findall(r"\d+", pred)
    return numbers.count(gold) / len(numbers) if numbers else 0.0


def retrieval(pred: str, gold: str) -> float:
    """`count` against the number of the gold, which reads "Paragraph 7". UserError where it does not."""
    paragraph = re.search(r"Paragraph (\d+)", gold)
    if paragraph is None:
        raise UserError(f'the reference answer should read "Paragraph N": {gold[:80]!r}')
    return count(pred, paragraph[1])


def code_line(text: str) -> str:
    """The line that LongBench scores as code: the first without a backtick, # or //; "" where there is none.

    Leading line breaks are dropped, indentation and a later empty line are not: references are indented too.
    """
    lines = text.lstrip("\n").split("\n")
    return next((line for line in lines if not any(mark in line for mark in ("`", "#", "//"))), "")


def readable(text: str) -> str:
    """Control characters \\x00 to \\x1f as line breaks, then trimmed: what RULER scores."""
    return "".join("\n" if c < " " else c for c in text).strip()


def string_match_all(pred: str, golds: Iterable[str]) -> float:
    """RULER: the share of the references that stand in pred, case ignored, inside longer words too."""
    golds = list(golds)
    return sum(stands_in(gold, pred) for gold in golds) / len(golds)


def string_match_part(pred: str, golds: Iterable[str]) -> float:
    """RULER's question answering: 1 where any reference stands in pred."""
    return float(any(stands_in(gold, pred) for gold in golds))


def stands_in(gold: str, pred: str) -> bool:
    return gold.lower() in readable(pred).lower()
