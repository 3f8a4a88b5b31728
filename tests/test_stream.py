"""Streamed text: the pieces join to the full decode, and no half character is shown."""

import random

import pytest
from tiny_chat import END, START, byte_level, sentencepiece, sp, write_chat

from nanokv.chat import Stream, decode, encode_raw, read_chat

KINDS = {
    "byte_level": byte_level,
    "legacy": lambda: sentencepiece(legacy=True),
    "metaspace": lambda: sentencepiece(legacy=False),
}
TEXT = "a 🙂 naïve 日本 👩‍👩‍👧 end"


@pytest.fixture(params=KINDS)
def chat(request, tmp_path):
    return read_chat(write_chat(tmp_path, KINDS[request.param](), None))


def streamed(chat, ids) -> list:
    """What is shown after each id, and at the end."""
    stream = Stream(chat)
    return [*(stream.push(i) for i in ids), stream.rest()]


def test_the_pieces_of_a_text_join_to_it(chat):
    ids = encode_raw(chat, TEXT)
    assert len(ids) > len(TEXT)  # characters over several tokens
    assert "".join(streamed(chat, ids)) == TEXT


def test_no_half_character_is_shown(chat):
    for piece in streamed(chat, encode_raw(chat, TEXT)):
        assert "\ufffd" not in piece


def test_what_is_shown_is_always_a_beginning_of_the_full_text(chat):
    shown = ""
    for piece in streamed(chat, encode_raw(chat, TEXT)):
        shown += piece
        assert TEXT.startswith(shown)


@pytest.mark.parametrize("seed", range(60))
def test_the_pieces_of_any_ids_join_to_the_full_decode(chat, seed):
    rng = random.Random(seed)
    ids = [rng.randrange(chat.n_ids) for _ in range(rng.choice((1, 5, 40)))]
    assert "".join(streamed(chat, ids)) == decode(chat, ids)


@pytest.mark.parametrize("seed", range(20))
def test_broken_bytes_among_whole_characters_join_to_the_full_decode(chat, seed):
    rng = random.Random(seed)
    first = 0 if chat.tokenizer.token_to_id("<s>") is None else 3  # the id of byte 0
    ids = []
    for _ in range(12):
        ids += [first + byte for byte in rng.choice(("🙂", "é", "a", "日")).encode()]
        if rng.random() < 0.3:
            del ids[rng.randrange(len(ids))]
    assert "".join(streamed(chat, ids)) == decode(chat, ids)


def test_a_character_appears_with_its_last_byte(tmp_path):
    chat = read_chat(write_chat(tmp_path, byte_level(), None))
    assert streamed(chat, [*b"a", *"🙂".encode(), *b"b"]) == ["a", "", "", "", "🙂", "b", ""]


def test_half_a_character_at_the_end_shows_as_the_full_decode_shows_it(tmp_path):
    chat = read_chat(write_chat(tmp_path, byte_level(), None))
    assert streamed(chat, [*b"a", 0xF0, 0x9F]) == ["a", "", "", "\ufffd"]


def test_a_control_token_inside_a_character_does_not_split_it(tmp_path):
    chat = read_chat(write_chat(tmp_path, byte_level(), None))
    assert streamed(chat, [START, 0xC3, END, 0xA9]) == ["", "", "", "é", ""]


def test_a_control_token_between_words_takes_no_space_with_it(tmp_path):
    chat = read_chat(write_chat(tmp_path, sentencepiece(), None))
    assert streamed(chat, [*sp("a"), 1, 2, *sp("▁b")]) == ["a", "", "", " ", "b", ""]


def test_the_space_that_a_sentencepiece_text_begins_with_is_not_shown(tmp_path):
    chat = read_chat(write_chat(tmp_path, sentencepiece(), None))
    assert "".join(streamed(chat, sp("▁a▁b"))) == "a b"


def test_smollm2_streams_whole_characters(smollm2):
    chat = read_chat(smollm2)
    pieces = streamed(chat, encode_raw(chat, TEXT))
    assert "".join(pieces) == TEXT and not any("\ufffd" in piece for piece in pieces)
