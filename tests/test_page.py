"""The page of a run: one file that loads nothing, whose data cannot become markup."""

import base64
import json
import re
import struct
from html.parser import HTMLParser

import pytest

from nanokv.page import page

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<!--",
    "\"'`",
    "\u2028\u2029",
    "{{data}}{{script}}",
    "&lt;",
    "\ufffd",
]


def trace_of(n_prompt: int, n_output: int, refreshes: list, **more) -> dict:
    return {
        "model": "tiny",
        "method": "surprise",
        "options": {"span": 9},
        "budget": 2,
        "every": 3,
        "dtype": "float32",
        "prompt_ids": list(range(100, 100 + n_prompt)),
        "output_ids": list(range(200, 200 + n_output)),
        "text": " answer",
        "stop": "eos",
        "n_seen": n_prompt + n_output - 1,
        "kept_rows": 2,
        "bytes_held": 4096,
        "peak_rows": 5,
        "refreshes": refreshes,
        "seconds": {"load": 0.5, "prefill": 1.0, "score": 0.25, "decode": 2.0},
        **more,
    }


class Blocks(HTMLParser):
    """What a browser's tokenizer would see: every tag with its attributes, and the text of each script."""

    def __init__(self, html: str):
        super().__init__()
        self.tags, self.scripts = [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        if self.tags and self.tags[-1][0] == "script" and self.cdata_elem == "script":
            self.scripts.append((self.tags[-1][1], data))


def data_of(html: str) -> dict:
    (text,) = re.findall(r'<script type="application/json" id="run">(.*?)</script>', html, re.S)
    return json.loads(text)


def positions_of(text: str) -> list:
    bits = base64.b64decode(text)
    return [i for i in range(8 * len(bits)) if bits[i // 8] & (1 << (i % 8))]


def scores_of(text: str) -> list:
    """Float32 values to 4 digits, each put together from its byte in the three planes over an empty lowest byte."""
    planes = base64.b64decode(text)
    n = len(planes) // 3
    words = [bytes([0, planes[i], planes[n + i], planes[2 * n + i]]) for i in range(n)]
    return [float(f"{struct.unpack('<f', word)[0]:.4g}") for word in words]


REFRESH = {"n_seen": 4, "shared": True, "positions": [0, 1, 3], "scores": [-1.23456789, 6.5e-7, None], "kept": [1, 3]}


def test_hostile_tokens_add_no_tag_and_no_script():
    quiet = Blocks(page(trace_of(4, 4, [REFRESH]), ["a"] * 8))
    loud = Blocks(page(trace_of(4, 4, [REFRESH], text=HOSTILE[0], model=HOSTILE[1]), HOSTILE))
    assert loud.tags == quiet.tags
    assert len(loud.scripts) == 2


@pytest.mark.parametrize("piece", HOSTILE[:3] + HOSTILE[4:5])
def test_a_hostile_token_never_stands_raw_in_the_page(piece):
    html = page(trace_of(4, 4, [REFRESH], text=piece, method=piece, options={piece: piece}), [piece] * 8)
    assert piece not in html.replace("<!DOCTYPE html>", "")


def test_hostile_tokens_come_back_unchanged_from_the_data_block():
    assert data_of(page(trace_of(4, 4, [REFRESH]), HOSTILE))["pieces"] == HOSTILE


def test_the_page_loads_nothing():
    html = page(trace_of(4, 2, [REFRESH]), list("abcdef"))
    for sign in ("http://", "https://", "src=", "href=", "url(", "@import", "import(", "fetch(", "XMLHttpRequest"):
        assert sign not in html
    policy = [attrs["content"] for tag, attrs in Blocks(html).tags if attrs.get("http-equiv")]
    assert policy == ["default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"]


def test_the_script_writes_text_only():
    html = page(trace_of(4, 2, [REFRESH]), list("abcdef"))
    for sign in ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "Function("):
        assert sign not in html


def test_no_placeholder_is_left():
    assert "{{" not in page(trace_of(4, 2, [REFRESH]), list("abcdef"))


def test_the_facts_of_the_trace_are_in_the_page():
    trace = trace_of(4, 2, [REFRESH])
    data = data_of(page(trace, list("abcdef")))
    same = set(trace) - {"prompt_ids", "output_ids", "refreshes"}
    assert {name: data[name] for name in same} == {name: trace[name] for name in same}
    assert (data["ids"], data["n_prompt"]) == ([100, 101, 102, 103, 200, 201], 4)


def test_a_shared_refresh_is_packed_as_one_head():
    (refresh,) = data_of(page(trace_of(4, 2, [REFRESH]), list("abcdef")))["refreshes"]
    ((head,),) = refresh["heads"]
    assert (refresh["n_seen"], refresh["shared"]) == (4, True)
    assert (positions_of(head["held"]), positions_of(head["kept"])) == ([0, 1, 3], [1, 3])
    assert scores_of(head["scores"]) == [-1.235, 6.5e-7, float("inf")]


def test_scores_follow_their_positions_into_order():
    refresh = {"n_seen": 4, "shared": True, "positions": [3, 0], "scores": [30.0, 1.0], "kept": [3]}
    (packed,) = data_of(page(trace_of(4, 2, [refresh]), list("abcdef")))["refreshes"]
    assert scores_of(packed["heads"][0][0]["scores"]) == [1.0, 30.0]


def test_heads_keep_their_own_positions_and_numbers():
    kept = [[[0], [2, 3]], [[], [1, 2, 3]]]
    held = [[[0, 1, 2, 3], [0, 2, 3]], [[1], [0, 1, 2, 3]]]
    scores = [[[p / 10 for p in head] for head in layer] for layer in held]
    refresh = {"n_seen": 4, "shared": False, "positions": held, "scores": scores, "kept": kept}
    (packed,) = data_of(page(trace_of(4, 2, [refresh]), list("abcdef")))["refreshes"]
    assert [[positions_of(head["held"]) for head in layer] for layer in packed["heads"]] == held
    assert [[positions_of(head["kept"]) for head in layer] for layer in packed["heads"]] == kept
    assert [[scores_of(head["scores"]) for head in layer] for layer in packed["heads"]] == scores


def test_a_run_without_a_refresh_has_a_page():
    html = page(trace_of(4, 2, [], method="full", budget=None, every=None, options={}), list("abcdef"))
    assert data_of(html)["refreshes"] == []
    assert "No refresh happened" in html


def test_a_lookahead_is_passed_on():
    look = {"trajectories": [[1, 2], [3, 4]], "weights": [0.25, 0.75]}
    assert data_of(page(trace_of(4, 2, [REFRESH], lookahead=look), list("abcdef")))["lookahead"] == look


def test_a_position_without_text_is_an_error_that_says_so():
    with pytest.raises(ValueError, match="positions 0 to 3 in the trace, 3 pieces"):
        page(trace_of(4, 2, [REFRESH]), list("abc"))


def test_a_missing_score_is_an_error():
    with pytest.raises(ValueError):
        page(trace_of(4, 2, [{**REFRESH, "scores": [1.0, 2.0]}]), list("abcdef"))


def test_thirty_layers_of_three_heads_over_4000_tokens_stay_under_2_mb():
    positions = list(range(4000))
    head = [(p * 7919 % 4001) / 4001 for p in positions]
    held, scores, kept = ([[one] * 3] * 30 for one in (positions, head, positions[::4]))
    refresh = {"n_seen": 4000, "shared": False, "positions": held, "scores": scores, "kept": kept}
    assert len(page(trace_of(4000, 1, [refresh]), [" word"] * 4001)) < 2_000_000
