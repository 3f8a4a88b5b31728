"""The checkpoint's own chat template: from messages to the text that the model was trained to see."""

import json
import warnings
from datetime import datetime
from pathlib import Path

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment

from nanokv import UserError

PROBE = "\U000f1000"  # a character for private use: nobody's text, and no template looks for it
REFUSALS = (TemplateError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)  # what Jinja lets out


def read_template(folder: Path, config: dict) -> str | None:
    """chat_template.jinja wins over tokenizer_config.json's; of several by name the one called default."""
    jinja = folder / "chat_template.jinja"
    template = jinja.read_text(encoding="utf-8") if jinja.exists() else config.get("chat_template")
    if isinstance(template, list):
        template = {entry["name"]: entry["template"] for entry in template}.get("default")
    return template


def render(template: str | None, tokens: dict, messages: list, add_generation_prompt: bool = True) -> str:
    """The text of messages [{"role", "content"}]; `tokens` are bos_token, eos_token, ... as templates know them.

    A system turn that the template refuses or leaves out goes into the first user turn, with a warning. Raises
    UserError quoting the template when it refuses the messages all the same.
    """
    if template is None:
        raise UserError("this checkpoint has no chat template: use --raw")
    if messages[0]["role"] != "system" or takes_system(template, tokens, messages):
        return fill_or_explain(template, tokens, messages, add_generation_prompt)
    text = fill_or_explain(template, tokens, folded(messages), add_generation_prompt)
    warnings.warn("the chat template takes no system turn: its text goes into the first user turn")
    return text


def takes_system(template: str, tokens: dict, messages: list) -> bool:
    """Whether what a system turn says comes out at the other end."""
    try:
        return PROBE in fill(template, tokens, [{**messages[0], "content": PROBE}, *messages[1:]], True)
    except REFUSALS:
        return False


def folded(messages: list) -> list:
    """The system turn's text in front of the user turn behind it."""
    system, *rest = messages
    if not rest or rest[0]["role"] != "user":
        raise UserError("the chat template takes no system turn, and no user turn follows to hold its text")
    gap = "\n\n" if system["content"] else ""
    return [{**rest[0], "content": system["content"] + gap + rest[0]["content"]}, *rest[1:]]


def fill_or_explain(template: str, tokens: dict, messages: list, add_generation_prompt: bool) -> str:
    try:
        return fill(template, tokens, messages, add_generation_prompt)
    except REFUSALS as e:
        raise UserError(f"the chat template refuses these messages: {e}") from None


class Generation(Extension):
    """`{% generation %}` marks the assistant's text for training; here its body is just text."""

    tags = frozenset({"generation"})

    def parse(self, parser):
        line = next(parser.stream).lineno
        return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True)).set_lineno(line)


def fill(template: str, tokens: dict, messages: list, add_generation_prompt: bool) -> str:
    """Jinja with the settings that checkpoints' templates are written for: both block trimmings, loop controls."""
    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", Generation]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = refuse
    env.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    known = {"messages": messages, "add_generation_prompt": add_generation_prompt, "tools": None, "documents": None}
    return env.from_string(template).render(**tokens, **known)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False) -> str:
    """JSON as it is; Jinja's own filter escapes HTML."""
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def refuse(message):
    raise TemplateError(message)
