"""RULER's words: the noun, adjective and verb lists of wonderwords 3.0.1 (MIT), read from the installed package."""

import random
import uuid
from functools import cache
from importlib import metadata, resources

from nanokv import UserError

VERSION = "3.0.1"  # another version has other lists, and other samples for the same seed


@cache
def word_list(kind: str) -> tuple:
    """All words of "noun", "adjective" or "verb", in the file's order, blanks behind a word cut off."""
    try:
        found = metadata.version("wonderwords")
    except metadata.PackageNotFoundError:
        found = "none"
    if found != VERSION:
        raise UserError(f"RULER needs wonderwords {VERSION}, found {found}: pip install -r eval/requirements.txt")
    text = (resources.files("wonderwords") / "assets" / f"{kind}list.txt").read_text(encoding="utf-8")
    return tuple(line.rstrip() for line in text.splitlines())


@cache
def all_words() -> tuple:
    """The three lists in one, each word once, sorted: 8,166."""
    return tuple(sorted({*word_list("noun"), *word_list("adjective"), *word_list("verb")}))


def pair(rng: random.Random) -> str:
    """An adjective and a noun with a hyphen between them, uniform over all 912 x 6,782 pairs."""
    return f"{rng.choice(word_list('adjective'))}-{rng.choice(word_list('noun'))}"


def number(rng: random.Random) -> str:
    """Seven digits, the first not 0."""
    return str(rng.randint(1_000_000, 9_999_999))


def random_uuid(rng: random.Random) -> str:
    return str(uuid.UUID(int=rng.getrandbits(128), version=4))


def unused(draw, taken: set) -> str:
    """The first of draw(), draw(), ... that is not taken; now it is."""
    word = draw()
    while word in taken:
        word = draw()
    taken.add(word)
    return word
