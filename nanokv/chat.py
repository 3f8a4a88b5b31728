"""Text to ids and back: the tokenizer, messages in the checkpoint's own chat template, streaming decode."""

import re
from dataclasses import dataclass
from pathlib import Path

from tokenizers import AddedToken, Tokenizer

from nanokv import UserError
from nanokv.config import Config, read_json
from nanokv.template import PROBE, REFUSALS, fill, read_template, render


@dataclass
class Chat:
    """A tokenizer and its template. Ids from `n_ids` on have no text, whatever the checkpoint's vocabulary is."""

    tokenizer: Tokenizer
    template: str | None
    tokens: dict  # bos_token, eos_token, ... as the template knows them
    bos_id: int | None  # put in front of every prompt; None where this tokenizer adds none
    n_ids: int


def read_chat(folder) -> Chat:
    """From tokenizer.json, tokenizer_config.json and chat_template.jinja (which wins over the config's template)."""
    folder = Path(folder)
    path = folder / "tokenizer.json"
    if not path.exists():
        raise UserError(f"missing file: {path}")
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as e:  # the library raises plain Exception
        raise UserError(f"{path} is not a tokenizer: {e}") from None
    extra = folder / "tokenizer_config.json"
    config = read_json(extra) if extra.exists() else {}
    names = ("bos_token", "eos_token", "unk_token", "pad_token")
    tokens = {name: text_of(config[name]) for name in names if config.get(name) is not None}
    n_ids = max(tokenizer.get_vocab(with_added_tokens=True).values()) + 1
    return Chat(tokenizer, read_template(folder, config), tokens, bos_added(tokenizer, config, tokens), n_ids)


def text_of(token) -> str:
    return token["content"] if isinstance(token, dict) else token


def bos_added(tokenizer: Tokenizer, config: dict, tokens: dict) -> int | None:
    """The id that the post-processor, or add_bos_token, puts in front."""
    bare, processed = (tokenizer.encode("a", add_special_tokens=special).ids for special in (False, True))
    if processed[:1] != bare[:1]:
        return processed[0]
    bos = tokenizer.token_to_id(tokens["bos_token"]) if "bos_token" in tokens else None
    return bos if config.get("add_bos_token") else None


def encode_raw(chat: Chat, text: str) -> list:
    """Ids of the text as it is, control tokens in it included, with a BOS where this tokenizer puts one."""
    return with_bos(chat, chat.tokenizer.encode(text, add_special_tokens=False).ids)


def with_bos(chat: Chat, ids: list) -> list:
    """Exactly one BOS in front, if this tokenizer adds one."""
    return ids if chat.bos_id is None or ids[:1] == [chat.bos_id] else [chat.bos_id, *ids]


def encode_chat(chat: Chat, messages: list, add_generation_prompt: bool = True) -> list:
    """Ids of messages [{"role", "content"}] in the checkpoint's template. Control tokens in them are plain text."""
    control = control_tokens(chat).values()
    if any(t.content in m["content"] for t in control for m in messages):
        return with_bos(chat, encode_beside_control_text(chat, messages, add_generation_prompt))
    text = render(chat.template, chat.tokens, messages, add_generation_prompt)
    return with_bos(chat, chat.tokenizer.encode(text, add_special_tokens=False).ids)


def control_tokens(chat: Chat) -> dict:
    return {i: t for i, t in chat.tokenizer.get_added_tokens_decoder().items() if t.special}


def encode_beside_control_text(chat: Chat, messages: list, add_generation_prompt: bool) -> list:
    """The same where a message spells out control tokens.

    Every control token gets a mark, a private character that no message has. Marks stand in for the messages' control
    text while the template is filled; then both change places, and a copy of the tokenizer that spells control text
    in characters knows the marks as tokens.
    """
    control = sorted(control_tokens(chat).values(), key=lambda t: len(t.content), reverse=True)
    free = (c for c in map(chr, range(0xF0000, 0xF1000)) if not any(c in m["content"] for m in messages))
    marks = {t.content: mark for t, mark in zip(control, free)}
    hidden = [{**m, "content": exchange(m["content"], marks)} for m in messages]
    text = render(chat.template, chat.tokens, hidden, add_generation_prompt)
    text = exchange(text, marks | {mark: content for content, mark in marks.items()})

    copy = Tokenizer.from_str(chat.tokenizer.to_str())
    copy.encode_special_tokens = True
    for t in control:
        mark = AddedToken(marks[t.content], lstrip=t.lstrip, rstrip=t.rstrip, normalized=t.normalized)
        copy.add_tokens([mark])
    own = {copy.token_to_id(mark): chat.tokenizer.token_to_id(content) for content, mark in marks.items()}
    return [own.get(i, i) for i in copy.encode(text, add_special_tokens=False).ids]


def exchange(text: str, table: dict) -> str:
    """Every key in the text becomes its value, in one go."""
    return re.sub("|".join(map(re.escape, table)), lambda found: table[found[0]], text)


def end_of_turn(chat: Chat) -> int | None:
    """The control token that the template puts behind an assistant's turn; None if it has none."""
    if chat.template is None:
        return None
    try:
        turns = [{"role": "user", "content": "x"}, {"role": "assistant", "content": PROBE}]
        behind = fill(chat.template, chat.tokens, turns, False).partition(PROBE)[2]
    except REFUSALS:
        return None
    found = [(behind.find(t.content), i) for i, t in control_tokens(chat).items()]
    found = [(at, i) for at, i in found if at >= 0]
    return min(found)[1] if found else None


def stop_ids(cfg: Config, chat: Chat) -> set:
    """What ends an answer: the checkpoint's end-of-text ids, and the template's end of turn."""
    return {*cfg.eos_ids, end_of_turn(chat)} - {None}


def leading_ids(chat: Chat, messages: list) -> int:
    """How many ids stand before the user's own text: the system turn, and the header of the user's."""
    probed = [{**m, "content": PROBE + m["content"]} if m["role"] == "user" else m for m in messages]
    for n, (one, other) in enumerate(zip(encode_chat(chat, messages), encode_chat(chat, probed))):
        if one != other:
            return n
    return 0


def decode(chat: Chat, ids: list) -> str:
    """The text of ids, control tokens left out, spaces as they are."""
    return chat.tokenizer.decode(ids, skip_special_tokens=True)


class Stream:
    """Feed ids one by one; `push` returns the text that became certain, `rest` what remains. Joined: the full decode.

    Only the ids behind the last certain one are decoded again, with that one before them for its spacing.
    """

    def __init__(self, chat: Chat):
        self.chat, self.ids, self.certain = chat, [], 0
        self.control = set(control_tokens(chat))
        # a run of these is decoded as a whole: one broken byte at its end would take back what was shown
        self.lone_bytes = {chat.tokenizer.token_to_id(f"<0x{byte:02X}>") for byte in range(256)}

    def push(self, token: int) -> str:
        if token in self.control:
            return ""
        self.ids.append(token)
        return "" if token in self.lone_bytes else self.show(held_back="\ufffd")  # the first bytes of a character

    def rest(self) -> str:
        return self.show(held_back=None)

    def show(self, held_back) -> str:
        before, text = decode(self.chat, self.ids[: self.certain]), decode(self.chat, self.ids)
        if held_back and text.endswith(held_back):
            return ""
        if self.certain < len(self.ids):
            self.ids = self.ids[self.certain :]
            self.certain = len(self.ids)
        return text[len(before) :]


def pieces(chat: Chat, ids: list) -> list:
    """The text of each id on its own, for display; bytes that are half a character show as U+FFFD."""
    return [chat.tokenizer.decode([i], skip_special_tokens=False) for i in ids]
