"""ROUGE-L (summary level) and edit similarity from their formulas, without recursion or libraries."""


def lcs_table(a: list, b: list) -> list:
    """table[i][j] = length of the longest common subsequence of a[:i] and b[:j]."""
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, x in enumerate(a, 1):
        for j, y in enumerate(b, 1):
            table[i][j] = table[i - 1][j - 1] + 1 if x == y else max(table[i - 1][j], table[i][j - 1])
    return table


def lcs(a: list, b: list) -> list:
    """One longest common subsequence, last word first; on a tie the walk goes back in b."""
    table, i, j, common = lcs_table(a, b), len(a), len(b), []
    while i and j:
        if a[i - 1] == b[j - 1]:
            common.append(a[i - 1])
            i, j = i - 1, j - 1
        elif table[i - 1][j] > table[i][j - 1]:
            i -= 1
        else:
            j -= 1
    return common


def rouge_l(pred: str, gold: str) -> float:
    """F of |union of the LCS words| against the distinct words of both sides."""
    preds, golds = ([" ".join(s.split()).split(" ") for s in text.split(".") if s] for text in (pred, gold))
    if not preds or not golds:
        return 0.0
    union = {word for g in golds for p in preds for word in lcs(g, p)}
    recall, precision = (len(union) / len({word for s in side for word in s}) for side in (golds, preds))
    return 2 * precision * recall / (precision + recall + 1e-8)


def edit_similarity(pred: str, gold: str) -> float:
    """2 LCS / (|pred| + |gold|) over characters, in whole percent / 100."""
    return round(200 * lcs_table(list(pred), list(gold))[-1][-1] / (len(pred) + len(gold))) / 100
