"""tokenizer.json and tokenizer_config.json from a GGUF's vocabulary, merges and scores."""

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from nanokv import UserError
from weights.gguf_file import Gguf

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED = 1, 2, 3, 4, 5  # tokenizer.ggml.token_type

# Where a byte-level BPE cuts a text before it merges, by the name a GGUF gives the rule: patterns, applied in turn.
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
SHORT, SPACES = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|", r"|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = SHORT + r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + SPACES
QWEN2 = LLAMA3.replace("{1,3}", "")  # every digit by itself
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
CAMEL = rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*"
TEKKEN = CAMEL + r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + SPACES
RULES = {
    "gpt-2": (GPT2,),
    "default": (r"[\p{P}$+<=>^~|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"),
    "smollm": (r"\p{N}", GPT2),
    "qwen2": (QWEN2,),
    "deepseek-r1-qwen": (QWEN2,),
    "llama-bpe": (LLAMA3,),
    "llama-v3": (LLAMA3,),
    "llama3": (LLAMA3,),
    "tekken": (TEKKEN,),
}
WHOLE_WORDS = ("llama-bpe", "llama-v3", "llama3", "tekken")  # a word that is a token needs no merges; BOS is the habit


def build_tokenizer(g: Gguf) -> Tokenizer:
    """The tokenizer, with BOS and EOS around a text where the file asks for them. UserError: unknown kind or rule."""
    kind, tokens = g.need("tokenizer.ggml.model"), kept_tokens(g)
    if kind not in ("gpt2", "llama"):
        raise UserError(f"{g.path} has a tokenizer of the kind {kind!r}; supported: gpt2, llama")
    tok = byte_level(g, tokens) if kind == "gpt2" else sentencepiece(g, tokens)
    types = g.get("tokenizer.ggml.token_type", [NORMAL] * len(tokens))
    typed = list(zip(tokens, types, strict=False))  # the padding has been left out of tokens
    tok.add_special_tokens([AddedToken(t, special=True, normalized=False) for t, k in typed if k in (UNKNOWN, CONTROL)])
    tok.add_tokens([AddedToken(t, special=False, normalized=False) for t, k in typed if k == USER_DEFINED])
    first, last = framing(g)
    if first or last:
        tok.post_processor = processors.TemplateProcessing(
            single=[*first, "$A", *last],
            pair=[*first, "$A", *last, *first, "$B", *last],
            special_tokens=[(text, tokens.index(text)) for text in {*first, *last}],
        )
    return tok


def kept_tokens(g: Gguf) -> list:
    """The vocabulary without the [PADn] entries that only fill the embedding up: no text means them."""
    tokens, types = g.need("tokenizer.ggml.tokens"), g.get("tokenizer.ggml.token_type", [])
    n = len(tokens)
    while n and len(types) >= n and types[n - 1] == UNUSED and tokens[n - 1] == f"[PAD{n - 1}]":
        n -= 1
    return tokens[:n]


def framing(g: Gguf) -> tuple:
    """([BOS] or [], [EOS] or []), as texts. A file that is silent about BOS means the habit of its kind."""
    habit = g.need("tokenizer.ggml.model") == "llama" or g.get("tokenizer.ggml.pre") in WHOLE_WORDS
    bos = [token_text(g, "bos")] if g.get("tokenizer.ggml.add_bos_token", habit) else []
    eos = [token_text(g, "eos")] if g.get("tokenizer.ggml.add_eos_token", False) else []
    return [t for t in bos if t], [t for t in eos if t]


def token_text(g: Gguf, key: str) -> str | None:
    i = g.get(f"tokenizer.ggml.{key}_token_id")
    return None if i is None else g.need("tokenizer.ggml.tokens")[i]


def byte_level(g: Gguf, tokens: list) -> Tokenizer:
    """BPE over bytes written as printable characters, its merges in the file."""
    rule = g.get("tokenizer.ggml.pre")
    if rule not in RULES:
        raise UserError(f"{g.path} splits words by the rule {rule!r}; supported: {', '.join(RULES)}")
    merges = [tuple(m.split(" ")) for m in g.need("tokenizer.ggml.merges")]
    vocab = {t: i for i, t in enumerate(tokens)}
    tok = Tokenizer(models.BPE(vocab, merges, ignore_merges=rule in WHOLE_WORDS))
    if rule == "qwen2":
        tok.normalizer = normalizers.NFC()
    cuts = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in RULES[rule]]
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tok.pre_tokenizer = pre_tokenizers.Sequence([*cuts, to_bytes])
    tok.decoder = decoders.ByteLevel()
    return tok


def sentencepiece(g: Gguf, tokens: list) -> Tokenizer:
    """BPE over characters with spaces written as U+2581; what has no token is spelt in bytes, <0x00> to <0xFF>."""
    unk = token_text(g, "unknown")
    vocab = {t: i for i, t in enumerate(tokens)}
    tok = Tokenizer(models.BPE(vocab, score_merges(g, tokens), unk_token=unk, fuse_unk=True, byte_fallback=True))
    prefix = g.get("tokenizer.ggml.add_space_prefix", True)
    tok.normalizer = normalizers.Sequence([normalizers.Prepend("▁")] * prefix + [normalizers.Replace(" ", "▁")])
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    tok.decoder = decoders.Sequence(steps + [decoders.Strip(" ", 1, 0)] * prefix)
    return tok


def score_merges(g: Gguf, tokens: list) -> list:
    """SentencePiece joins the neighbours whose joint piece scores best; as BPE: every way to cut a piece in two, best
    piece first. Control and byte tokens are not made from text."""
    scores, types = g.need("tokenizer.ggml.scores"), g.get("tokenizer.ggml.token_type", [NORMAL] * len(tokens))
    pieces = {t: i for i, t in enumerate(tokens) if types[i] in (NORMAL, USER_DEFINED)}
    cuts = [
        (-scores[i], pieces[t[:n]], pieces[t[n:]], t[:n], t[n:])
        for t, i in pieces.items()
        for n in range(1, len(t))
        if t[:n] in pieces and t[n:] in pieces
    ]
    return [cut[3:] for cut in sorted(cuts)]


def tokenizer_config(g: Gguf) -> dict:
    """tokenizer_config.json: special tokens as texts, whether BOS is added, the chat template if the file has one."""
    names = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}
    special = {name: token_text(g, key) for name, key in names.items()}
    template = g.get("tokenizer.chat_template")
    return {
        **{name: text for name, text in special.items() if text is not None},
        "add_bos_token": bool(framing(g)[0]),
        "clean_up_tokenization_spaces": False,
        "model_max_length": g.need("{arch}.context_length"),
        "tokenizer_class": "PreTrainedTokenizerFast",
        **({"chat_template": template} if template else {}),
    }
