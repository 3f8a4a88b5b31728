"""LongBench's two metrics that rest on libraries: ROUGE-L and edit similarity (THUDM/LongBench, metrics.py)."""

import sys

from nanokv import UserError

try:
    from rapidfuzz import fuzz
    from rouge import Rouge
except ImportError as error:
    raise UserError(f"{error.name} is missing: pip install -r eval/requirements.txt") from error

ROUGE_L = Rouge(metrics=["rouge-l"], stats=["f"])


def rouge_l(pred: str, gold: str) -> float:
    """ROUGE-L F of rouge 1.0.1, summary level: over *sets* of words, not the measure of the package rouge-score.

    Sentences end at every "."; where either side has none it is 0. The library walks back through its table with a
    call for each word. LongBench counts the RecursionError as 0; here long sentences get the depth they need.
    """
    if not pred.replace(".", "") or not gold.replace(".", ""):
        return 0.0
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + len(pred.split()) + len(gold.split()))
    try:
        return ROUGE_L.get_scores(pred, gold)[0]["rouge-l"]["f"]
    finally:
        sys.setrecursionlimit(limit)


def edit_similarity(pred: str, gold: str) -> float:
    """fuzz.ratio of two lines, as a whole percentage / 100: 2 LCS / (|pred| + |gold|) over characters.

    LongBench takes fuzzywuzzy's, which gives this with python-Levenshtein installed and less (3 points on average)
    without it.
    """
    return round(fuzz.ratio(pred, gold)) / 100 if pred else 0.0
