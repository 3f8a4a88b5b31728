"""Essay-like text to hide needles in: the user's own files where there are any, else sentences made by a grammar.

The published haystacks (gkamradt/LLMTest_NeedleInAHaystack, also RULER's) are an author's essays and are not shipped.
"""

import random
import re
from collections.abc import Iterator
from pathlib import Path

from eval.essay_words import GENERAL, TOPICS
from nanokv import UserError

PARAGRAPH = 7  # sentences on one topic


def essays(data: Path | None, seed: int, n_words: int) -> tuple[str, str]:
    """(text of at least n_words words, its name).

    "essays": DATA/essays/*.txt in sorted order, nothing between them, repeated if short, whatever the seed.
    "generated": `essay(seed, n_words)`, where that folder is absent. UserError where it is there and holds no text.
    """
    folder = Path(data) / "essays" if data else None
    if folder is None or not folder.is_dir():
        return essay(seed, n_words), "generated"
    text = "".join(path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.txt")))
    held = len(text.split())
    if not held:
        raise UserError(f"no words in {folder}/*.txt")
    return text * -(-n_words // held), "essays"


def essay(seed: int, n_words: int) -> str:
    """The first n_words words of an endless text: no sentence twice, the last one cut where it stands."""
    words = []
    for sentence in sentences(random.Random(seed)):
        words += sentence.split()
        if len(words) >= n_words:
            return " ".join(words[:n_words])


def sentences(rng: random.Random) -> Iterator[str]:
    """Sentences without end, some on one topic, then some on another."""
    general = slots(GENERAL)
    topics = [slots(block) for block in TOPICS.strip().split("\n\n")]
    said = set()
    while True:
        topic = general | rng.choice(topics)
        for _ in range(PARAGRAPH):
            sentence = expanded("{sentence}.", topic, rng)
            if sentence not in said:
                said.add(sentence)
                yield sentence[0].upper() + sentence[1:]


def slots(block: str) -> dict:
    """{slot: its expansions} of lines that read `slot: one | another`; lines of the same slot add up."""
    found = {}
    for line in block.strip().splitlines():
        slot, _, words = line.partition(": ")
        found.setdefault(slot, []).extend(words.split(" | "))
    return found


def expanded(text: str, grammar: dict, rng: random.Random) -> str:
    """`text` with every slot in braces replaced by one of its expansions, down to plain words."""
    while "{" in text:
        text = re.sub(r"\{(\w+)\}", lambda match: rng.choice(grammar[match[1]]), text)
    return text
