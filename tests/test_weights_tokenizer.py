"""The tokenizer rebuilt from a GGUF gives the ids that the file's own vocabulary and rules mean."""

import json
from pathlib import Path

import pytest
import tiny_gguf as tiny
from tokenizers import Tokenizer

from nanokv import UserError
from weights.gguf_file import open_gguf
from weights.gguf_tokenizer import build_tokenizer, tokenizer_config

GOLDEN = Path(__file__).parent / "golden" / "tokenizer_smollm2.json"


def tokenizer(tmp_path, meta=(), kind="bpe"):
    tiny.write(tmp_path / "m.gguf", meta=meta, tokenizer=kind)
    return Tokenizer.from_str(build_tokenizer(open_gguf(tmp_path / "m.gguf")).to_str())  # as read from the file


def ids(tok, text):
    return tok.encode(text).ids


def test_bpe_merges_within_words_and_splits_every_digit(tmp_path):
    tok = tokenizer(tmp_path)
    assert ids(tok, "ab ab11") == [6, 7, 8, 8]
    assert tok.decode([6, 7, 8, 8]) == "ab ab11"


def test_white_space_before_a_digit_stays_together_under_smollms_rule_and_not_under_gpt2s(tmp_path):
    meta = {"tokenizer.ggml.tokens": [*tiny.BPE, "ĠĠ"], "tokenizer.ggml.token_type": [*tiny.BPE_TYPES, 1]}
    meta["tokenizer.ggml.merges"] = [*tiny.MERGES, "Ġ Ġ"]
    assert ids(tokenizer(tmp_path, meta), "a  1") == [2, 10, 8]
    assert ids(tokenizer(tmp_path, {**meta, "tokenizer.ggml.pre": "gpt-2"}), "a  1") == [2, 5, 5, 8]


def test_control_and_user_defined_tokens_are_found_in_text_and_only_control_ones_are_special(tmp_path):
    tok = tokenizer(tmp_path)
    assert ids(tok, "a<tool>b<|end|>") == [2, 1, 3, 0]
    assert tok.decode([2, 1, 3, 0]) == "a<tool>b"


@pytest.mark.parametrize(("add_bos", "first"), [(True, [0]), (False, []), (None, [])])
def test_bos_is_put_in_front_only_where_the_file_says_so(tmp_path, add_bos, first):
    tok = tokenizer(tmp_path, {"tokenizer.ggml.add_bos_token": add_bos})
    assert ids(tok, "ab") == [*first, 6]


def test_llama3_files_that_are_silent_add_bos_and_keep_whole_words(tmp_path):
    tokens = [*tiny.BPE, "bc"]  # no merge makes it
    meta = {"tokenizer.ggml.pre": "llama-bpe", "tokenizer.ggml.tokens": tokens}
    tok = tokenizer(tmp_path, {**meta, "tokenizer.ggml.token_type": [*tiny.BPE_TYPES, 1]})
    assert ids(tok, "bc") == [0, 10]


def test_qwen2_composes_accents_first(tmp_path):
    tokens = [*tiny.BPE, "Ã", "©"]  # the bytes C3 A9 of é
    meta = {"tokenizer.ggml.pre": "qwen2", "tokenizer.ggml.tokens": tokens}
    tok = tokenizer(tmp_path, {**meta, "tokenizer.ggml.token_type": [*tiny.BPE_TYPES, 1, 1]})
    assert ids(tok, "e\u0301") == [10, 11]


def test_entries_that_only_pad_the_embedding_are_left_out(tmp_path):
    tokens = [*tiny.BPE, "[PAD10]", "[PAD11]"]
    meta = {"tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": [*tiny.BPE_TYPES, 5, 5]}
    assert tokenizer(tmp_path, meta).get_vocab_size() == 10


def test_an_unknown_rule_is_named_with_the_supported_ones(tmp_path):
    with pytest.raises(UserError, match=r"'viking'.*supported: gpt-2.*smollm.*tekken"):
        tokenizer(tmp_path, {"tokenizer.ggml.pre": "viking"})


def test_an_unknown_kind_is_named(tmp_path):
    with pytest.raises(UserError, match=r"'rwkv'.*supported: gpt2, llama"):
        tokenizer(tmp_path, {"tokenizer.ggml.model": "rwkv"})


# ids of the SentencePiece vocabulary: byte b is 3 + b; _ 259, a 260, b 261, c 262, _ab 263, _a 264, bc 265, ab 266
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("abc", [1, 263, 262]),  # ab is best, then _ab
        ("bbc", [1, 259, 261, 265]),  # bc is joined before anything with _
        ("aabc", [1, 264, 266, 262]),  # ab, then _a, and bc never
        ("a a", [1, 264, 264]),
        ("é", [1, 259, 3 + 0xC3, 3 + 0xA9]),  # no token: spelt in bytes
        ("", [1]),
        ("</s>a", [1, 2, 264]),
    ],
)
def test_sentencepiece_joins_the_best_scored_pair_first(tmp_path, text, wanted):
    tok = tokenizer(tmp_path, tiny.spm_meta(), "spm")
    assert ids(tok, text) == wanted
    assert tok.decode(wanted, skip_special_tokens=True) == text.removeprefix("</s>")


def test_sentencepiece_without_the_space_prefix(tmp_path):
    tok = tokenizer(tmp_path, tiny.spm_meta(add_space_prefix=False), "spm")
    assert ids(tok, "ab ab") == [1, 266, 263]
    assert tok.decode([1, 263, 266]) == " abab"


def test_tokenizer_config_has_the_texts_and_the_template(tmp_path):
    tiny.write(tmp_path / "m.gguf", meta=tiny.spm_meta() | {"tokenizer.chat_template": "{{ x }}"}, tokenizer="spm")
    config = tokenizer_config(open_gguf(tmp_path / "m.gguf"))
    assert config["bos_token"] == "<s>"
    assert config["eos_token"] == "</s>"
    assert config["unk_token"] == "<unk>"
    assert "pad_token" not in config
    assert config["add_bos_token"] is True
    assert config["chat_template"] == "{{ x }}"
    assert config["clean_up_tokenization_spaces"] is False


def golden():
    return json.loads(GOLDEN.read_text())


@pytest.mark.parametrize("row", golden(), ids=lambda row: repr(row["text"][:16]))
def test_smollm2_ids_are_those_of_a_plain_loop_over_the_merges(smollm2, row):
    tok = Tokenizer.from_file(str(smollm2 / "tokenizer.json"))
    assert ids(tok, row["text"]) == row["ids"]
    assert tok.decode(row["ids"], skip_special_tokens=False) == row["text"]


def test_smollm2_ids_are_those_of_transformers_but_for_white_space_before_digits(smollm2):
    tok = Tokenizer.from_file(str(smollm2 / "tokenizer.json"))
    other = [row["text"] for row in golden() if ids(tok, row["text"]) != row["transformers"]]
    assert other == [row["text"] for row in golden() if "  12 of" in row["text"]]
