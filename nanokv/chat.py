"""Text to ids and back: the tokenizer, the checkpoint's own chat template, streaming decode."""

import json
import re
import warnings
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

from nanokv import UserError
from nanokv.config import read_json


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


def read_template(folder: Path, config: dict) -> str | None:
    jinja = folder / "chat_template.jinja"
    template = jinja.read_text(encoding="utf-8") if jinja.exists() else config.get("chat_template")
    if isinstance(template, list):  # several by name
        template = {entry["name"]: entry["template"] for entry in template}.get("default")
    return template


def bos_added(tokenizer: Tokenizer, config: dict, tokens: dict) -> int | None:
    """The id that the post-processor, or add_bos_token, puts in front."""
    bos = tokenizer.token_to_id(tokens["bos_token"]) if "bos_token" in tokens else None
    processed = tokenizer.encode("", add_special_tokens=True).ids
    if processed and (bos is None or processed[0] == bos):
        return processed[0]
    return bos if config.get("add_bos_token") else None


def encode_raw(chat: Chat, text: str) -> list:
    """Ids of the text as it is, control tokens in it included, with a BOS where this tokenizer puts one."""
    return with_bos(chat, chat.tokenizer.encode(text, add_special_tokens=False).ids)


def with_bos(chat: Chat, ids: list) -> list:
    """Exactly one BOS in front, if this tokenizer adds one."""
    return ids if chat.bos_id is None or ids[:1] == [chat.bos_id] else [chat.bos_id, *ids]


def encode_chat(chat: Chat, messages: list, add_generation_prompt: bool = True) -> list:
    """Ids of messages [{"role", "content"}] in the checkpoint's template. Control tokens in them are plain text."""
    control = [t.content for t in chat.tokenizer.get_added_tokens_decoder().values() if t.special]
    disguise = {text: chr(0xF0000 + i) for i, text in enumerate(sorted(control, key=len, reverse=True))}
    if not any(text in m["content"] for text in control for m in messages):
        rendered = render(chat, messages, add_generation_prompt)
        return with_bos(chat, chat.tokenizer.encode(rendered, add_special_tokens=False).ids)
    hidden = [{**m, "content": replace_all(m["content"], disguise)} for m in messages]
    rendered = render(chat, hidden, add_generation_prompt)
    back = {mark: text for text, mark in disguise.items()}
    ids = []
    for piece in re.split("(" + "|".join(map(re.escape, disguise)) + ")", rendered):
        ids += [chat.tokenizer.token_to_id(piece)] if piece in disguise else plain(chat, replace_all(piece, back))
    return with_bos(chat, ids)


def replace_all(text: str, table: dict) -> str:
    for old, new in table.items():
        text = text.replace(old, new)
    return text


def plain(chat: Chat, text: str) -> list:
    """Ids with every control token spelt out in characters."""
    chat.tokenizer.encode_special_tokens = True
    try:
        return chat.tokenizer.encode(text, add_special_tokens=False).ids
    finally:
        chat.tokenizer.encode_special_tokens = False


def render(chat: Chat, messages: list, add_generation_prompt: bool = True) -> str:
    """The template's text. A template that refuses (or leaves out) a system turn gets it inside the first user turn."""
    if chat.template is None:
        raise UserError("this checkpoint has no chat template: use --raw")
    try:
        text = fill(chat, messages, add_generation_prompt)
        if messages[0]["role"] != "system" or messages[0]["content"].strip() in text:
            return text
    except TemplateError as e:
        if messages[0]["role"] != "system" or len(messages) < 2:
            raise UserError(f"the chat template refuses these messages: {e}") from None
    warnings.warn("the chat template takes no system turn: its text goes into the first user turn")
    system, user, *rest = messages
    folded = {**user, "content": system["content"] + "\n\n" + user["content"]}
    try:
        return fill(chat, [folded, *rest], add_generation_prompt)
    except TemplateError as e:
        raise UserError(f"the chat template refuses these messages: {e}") from None


def fill(chat: Chat, messages: list, add_generation_prompt: bool) -> str:
    """Jinja with the settings that checkpoints' templates are written for: both block trimmings, loop controls."""
    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"], keep_trailing_newline=False
    )
    env.filters["tojson"] = lambda x, indent=None: json.dumps(x, ensure_ascii=False, indent=indent)
    env.globals["raise_exception"] = refuse
    env.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    known = {"messages": messages, "add_generation_prompt": add_generation_prompt, "tools": None, "documents": None}
    return env.from_string(chat.template).render(**chat.tokens, **known)


def refuse(message):
    raise TemplateError(message)


def end_of_turn(chat: Chat) -> int | None:
    """The control token that the template puts behind an assistant's turn; None if it has none."""
    probe = "\U000f1000"
    try:
        turn = fill(chat, [{"role": "user", "content": "x"}, {"role": "assistant", "content": probe}], False)
    except (TemplateError, AttributeError, TypeError):
        return None
    behind = turn.partition(probe)[2]
    found = [(behind.find(t.content), i) for i, t in chat.tokenizer.get_added_tokens_decoder().items() if t.special]
    found = [(at, i) for at, i in found if at >= 0]
    return min(found)[1] if found else None


def leading_ids(chat: Chat, messages: list) -> int:
    """How many ids stand before the user's own text: the system turn, and the header of the user's."""
    probed = [{**m, "content": chr(0xF1000) + m["content"]} if m["role"] == "user" else m for m in messages]
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
        self.control = {i for i, t in chat.tokenizer.get_added_tokens_decoder().items() if t.special}

    def push(self, token: int) -> str:
        if token in self.control:
            return ""
        self.ids.append(token)
        return self.show(held_back="\ufffd")  # the first bytes of a character

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
