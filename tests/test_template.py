"""The chat template is filled as checkpoints expect, and no system turn is ever lost."""

import json

import pytest
from tiny_chat import byte_level, write_chat

from nanokv import UserError
from nanokv.chat import encode_chat, read_chat
from nanokv.template import read_template, render

ASK = {"role": "user", "content": "Where?"}
SYSTEM = {"role": "system", "content": "Be brief."}
REFUSES = "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
TURNS = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
DROPS = "{% for m in messages if m.role != 'system' %}<{{ m.role }}>{{ m.content }}{% endfor %}"


def test_a_block_takes_its_indentation_and_its_line_break_with_it():
    template = "a\n  {% if true %}\n  b\n  {% endif %}\nc\n"
    assert render(template, {}, [ASK]) == "a\n  b\nc"


def test_loop_controls_work():
    template = "{% for m in messages %}{% if loop.index == 2 %}{% break %}{% endif %}{{ m.content }}{% endfor %}"
    assert render(template, {}, [ASK, {"role": "assistant", "content": "Here."}]) == "Where?"


def test_the_body_of_a_generation_block_is_text():
    assert render("[{% generation %}{{ messages[0].content }}{% endgeneration %}]", {}, [ASK]) == "[Where?]"


def test_json_in_a_template_is_neither_escaped_nor_ascii():
    template = "{{ {'b': messages[0].content, 'a': 1} | tojson }} {{ [1] | tojson(separators=(',', ':')) }}"
    assert render(template, {}, [{"role": "user", "content": "é<&>'"}]) == '{"b": "é<&>\'", "a": 1} [1]'


def test_special_tokens_reach_the_template_and_absent_ones_are_empty():
    assert render("{{ bos_token }}x{{ eos_token }}", {"bos_token": "<s>"}, [ASK]) == "<s>x"


def test_a_template_can_tell_whether_there_are_tools():
    assert render("{% if tools %}tools{% endif %}{% if tools is none %}none{% endif %}", {}, [ASK]) == "none"


@pytest.mark.parametrize("template", [REFUSES + TURNS, DROPS])
def test_a_system_turn_that_is_refused_or_left_out_goes_into_the_first_user_turn(template):
    with pytest.warns(UserWarning, match="first user turn"):
        assert render(template, {}, [SYSTEM, ASK]) == "<user>Be brief.\n\nWhere?"


def test_a_system_turn_is_missed_even_where_the_user_says_the_same():
    echo = {"role": "user", "content": "They said: Be brief. Why?"}
    with pytest.warns(UserWarning, match="first user turn"):
        assert render(DROPS, {}, [SYSTEM, echo]) == "<user>Be brief.\n\nThey said: Be brief. Why?"


def test_a_system_turn_that_the_template_trims_is_not_missed():
    template = "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}{% endfor %}"
    assert (
        render(template, {}, [{"role": "system", "content": " Be  brief.\n"}, ASK]) == "<system>Be  brief.<user>Where?"
    )


def test_no_warning_where_the_template_takes_a_system_turn(recwarn):
    assert render(TURNS, {}, [SYSTEM, ASK]) == "<system>Be brief.<user>Where?"
    assert not recwarn.list


def test_a_system_turn_with_no_user_turn_behind_it_is_an_error():
    with pytest.raises(UserError, match="takes no system turn"):
        render(DROPS, {}, [SYSTEM])


def test_a_template_that_refuses_in_any_case_is_quoted():
    with pytest.raises(UserError, match="refuses these messages: only robots"):
        render("{{ raise_exception('only robots') }}", {}, [SYSTEM, ASK])


@pytest.mark.parametrize("template", ["{% if %}", "{{ messages[0].content + 1 }}", "{{ 1 / 0 }}", "{{ x.y.z }}"])
def test_a_broken_template_is_one_readable_error(template):
    with pytest.raises(UserError, match="the chat template refuses these messages: "):
        render(template, {}, [ASK])


def test_a_template_cannot_reach_pythons_internals():
    with pytest.raises(UserError, match="unsafe"):
        render("{{ messages.__class__.__mro__[1].__subclasses__() }}", {}, [ASK])


def test_without_a_template_the_way_out_is_named(tmp_path):
    chat = read_chat(write_chat(tmp_path, byte_level(), None))
    with pytest.raises(UserError, match="no chat template: use --raw"):
        encode_chat(chat, [ASK])


def test_the_template_file_wins_over_the_config(tmp_path):
    (tmp_path / "chat_template.jinja").write_text("from the file", encoding="utf-8")
    assert read_template(tmp_path, {"chat_template": "from the config"}) == "from the file"


def test_of_several_templates_the_default_is_taken(tmp_path):
    named = [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]
    assert read_template(tmp_path, {"chat_template": named}) == "d"


def test_special_tokens_may_be_stored_as_objects(tmp_path):
    write_chat(tmp_path, byte_level(), "{{ bos_token }}", bos_token={"content": "<|start|>", "lstrip": False})
    assert json.loads((tmp_path / "tokenizer_config.json").read_text())["bos_token"]["content"] == "<|start|>"
    assert read_chat(tmp_path).tokens == {"bos_token": "<|start|>"}
