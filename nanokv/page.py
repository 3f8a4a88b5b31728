"""One run as one HTML page that needs nothing else: the text coloured by score, and a map of what was still held.

page.html, the three scripts and the run's data make the page. All text of the model travels in one JSON block in
which `<`, `>`, `&` and everything outside ASCII are escaped, so no token can end the block, and the scripts only ever
write it as text. Per refresh, layer and kv head the block has three base64 strings:

    held, kept   one bit a position, lowest bit of the first byte = position 0
    scores       of the held positions, in position order, to 4 significant digits: the upper three bytes of a
                 little-endian float32, first all lowest ones, then all middle ones, then all highest ones
"""

import base64
import json
import math
import struct
from pathlib import Path

SCRIPTS = ("page_data.js", "page_map.js", "page.js")
FACTS = ("model", "method", "options", "budget", "every", "dtype", "n_seen", "kept_rows", "peak_rows", "bytes_held")
FACTS += ("stop", "seconds", "text")


def page(trace: dict, pieces: list[str]) -> str:
    """The HTML document of a run. `trace` is what `--trace` writes, `pieces[i]` the text of the token at position i.

    Prompt and answer tokens both have one, leading spaces included. Raises ValueError for a position without a piece
    or a score.
    """
    data = {name: trace[name] for name in FACTS}
    data["ids"] = trace["prompt_ids"] + trace["output_ids"]
    data["n_prompt"] = len(trace["prompt_ids"])
    data["pieces"] = pieces
    data["refreshes"] = [packed_refresh(refresh, len(pieces)) for refresh in trace["refreshes"]]
    data["lookahead"] = trace.get("lookahead")
    html = read("page.html")
    html = html.replace("{{script}}", "\n".join(read(name) for name in SCRIPTS))
    return html.replace("{{data}}", escaped(data))  # last, so that braces in the data stay what they are


def read(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def escaped(data) -> str:
    """JSON that may stand inside a <script> block: pure ASCII without `<`, `>` and `&`."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def packed_refresh(refresh: dict, n: int) -> dict:
    """One refresh with `heads[layer][kv head]`; a shared one has a single head that stands for all."""
    lists = [refresh["positions"], refresh["scores"], refresh["kept"]]
    if refresh["shared"]:
        lists = [[[one]] for one in lists]
    heads = [[packed_head(*head, n) for head in zip(*layer, strict=True)] for layer in zip(*lists, strict=True)]
    return {"n_seen": refresh["n_seen"], "shared": refresh["shared"], "heads": heads}


def packed_head(positions: list, scores: list, kept: list, n: int) -> dict:
    pairs = sorted(zip(positions, scores, strict=True), key=lambda pair: pair[0])
    in_order = [score for _, score in pairs]
    return {"held": packed_bits(positions, n), "kept": packed_bits(kept, n), "scores": packed_scores(in_order)}


def packed_bits(positions: list, n: int) -> str:
    if positions and not 0 <= min(positions) <= max(positions) < n:
        raise ValueError(f"positions {min(positions)} to {max(positions)} in the trace, {n} pieces of text")
    bits = bytearray((n + 7) // 8)
    for position in positions:
        bits[position >> 3] |= 1 << (position & 7)
    return base64.b64encode(bits).decode("ascii")


def packed_scores(scores: list) -> str:
    """None is infinite. Four digits survive: they are at least 1e-4 apart, three bytes are right to 2**-15 (3e-5)."""
    rounded = [math.inf if score is None else float(f"{score:.4g}") for score in scores]
    raw = struct.pack(f"<{len(rounded)}f", *rounded)
    return base64.b64encode(raw[1::4] + raw[2::4] + raw[3::4]).decode("ascii")
