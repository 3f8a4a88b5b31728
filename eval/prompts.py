"""From a sample to token ids: rendered once, tokenised once, and split afterwards, so that both protocols see the same.

`--ask before` reads all the ids and then evicts; `--ask after` reads `n_context` of them, evicts, and feeds the rest.
Where the question, the frozen prefix and the user's text begin is found as in `nanokv.chat.leading_ids`: a character
that nobody uses is put there, and the first id that changes is the place. A token that straddles the border belongs
to what comes behind it, so nothing of the question is read before the eviction.
"""

import hashlib
from dataclasses import dataclass, replace

from eval.cut import cut_middle
from eval.task import Sample
from nanokv import UserError
from nanokv.chat import Chat, encode_chat, encode_raw
from nanokv.template import PROBE


@dataclass(frozen=True)
class Prompt:
    """`ids` and how many of them: `n_context` come before the question, `n_frozen` are the frozen prefix and all
    before it (0 without one), `n_leading` stand before the user's own text. `n_cut` tokens were left out."""

    ids: list
    n_context: int
    n_frozen: int
    n_leading: int
    n_cut: int
    sha: str  # sha256 of the ids, as "1 2 3"


def build_prompt(chat: Chat, sample: Sample, max_prompt: int | None = None) -> Prompt:
    """The prompt of one sample. UserError where it needs a chat template and the checkpoint has none."""
    sample, n_cut = cut(chat, sample, max_prompt)
    ids = encode(chat, sample)
    n_context = begins(chat, sample, ids, len(sample.context)) if sample.question else len(ids)
    n_frozen = begins(chat, sample, ids, sample.frozen) if sample.frozen else 0
    n_leading = begins(chat, sample, ids, 0) if sample.chat else 0
    sha = hashlib.sha256(" ".join(map(str, ids)).encode()).hexdigest()
    return Prompt(ids, n_context, n_frozen, n_leading, n_cut, sha)


def parts(prompt: Prompt, ask: str) -> tuple[list, list]:
    """(ids read before the eviction, ids fed after it). UserError where no question can be kept back."""
    if ask == "before":
        return prompt.ids, []
    context, rest = prompt.ids[: prompt.n_context], prompt.ids[prompt.n_context :]
    if not context or not rest:
        raise UserError("--ask after needs a question, and something before it")
    return context, rest


def protected_rows(prompt: Prompt, ask: str) -> tuple[int, bool]:
    """(leading ids that the word `system` protects, whether every method gets that word).

    A frozen prefix is kept by all methods, and counted in their budgets (arXiv 2607.27600). Under --ask after all of
    them also keep what the template puts before the user's text: it is no part of the context that is compressed.
    """
    return max(prompt.n_leading, prompt.n_frozen), prompt.n_frozen > 0 or (ask == "after" and prompt.n_leading > 0)


def encode(chat: Chat, sample: Sample, mark_at: int | None = None) -> list:
    """Ids of the whole prompt; with a PROBE before character `mark_at` of the user's text, if given.

    In the chat template control tokens in the text are plain text, and the answer prefix stands behind the
    assistant's header. A raw prompt is one string as the papers' code reads it, control tokens included.
    """
    text = sample.context + sample.question
    if mark_at is not None:
        text = text[:mark_at] + PROBE + text[mark_at:]
    if not sample.chat:
        return encode_raw(chat, text + sample.prefix)
    if chat.template is None:
        raise UserError("this checkpoint has no chat template, and this task is asked in one: see --raw")
    return encode_chat(with_prefix(chat, sample.prefix), [{"role": "user", "content": text}])


def with_prefix(chat: Chat, prefix: str) -> Chat:
    """The same checkpoint with a template that ends in the prefix, so that header and prefix are tokenised as one."""
    template = chat.template.removesuffix("\n").removesuffix("\r")  # Jinja drops one line break at the very end itself
    return replace(chat, template=template + "{{ answer_prefix }}", tokens={**chat.tokens, "answer_prefix": prefix})


def begins(chat: Chat, sample: Sample, ids: list, at: int) -> int:
    """The number of ids that stand before character `at` of the user's text."""
    for n, (one, other) in enumerate(zip(ids, encode(chat, sample, mark_at=at))):
        if one != other:
            return n
    return len(ids)


def counter(chat: Chat, raw: bool = False):
    """`count` of a Request: the tokens of a sample's prompt, without a BOS."""

    def count(sample: Sample) -> int:
        ids = encode(chat, replace(sample, chat=sample.chat and not raw))
        return len(ids) - (ids[0] == chat.bos_id)

    return count


def cut(chat: Chat, sample: Sample, max_prompt: int | None) -> tuple[Sample, int]:
    """(the sample with its text cut in the middle, tokens left out), as LongBench does.

    The filled prompt, not yet in a template, keeps its first and last max_prompt // 2 tokens, special ones counted.
    LongBench decodes both halves; here the text itself is sliced where they end, so no character is lost.
    """
    if max_prompt is None:
        return sample, 0
    text = sample.context + sample.question
    spans = chat.tokenizer.encode(text).offsets
    kept = cut_middle(list(range(len(spans))), max_prompt)  # the numbers of the tokens that stay
    if len(kept) == len(spans):
        return sample, 0
    last, first = kept[len(kept) // 2 - 1], kept[len(kept) // 2]  # before and behind the gap
    head = spans[last][1]
    tail = max(head, min(spans[first][0], spans[first - 1][1]))  # some tokenizers leave spaces out of their spans

    def moved(at: int) -> int:
        return at if at <= head else head + max(0, at - tail)

    text, question = text[:head] + text[tail:], moved(len(sample.context))
    frozen = moved(sample.frozen)
    return replace(sample, context=text[:question], question=text[question:], frozen=frozen), len(spans) - len(kept)
