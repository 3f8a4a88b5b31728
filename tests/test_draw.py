"""The SVG pictures: well-formed, and every mark where a position is held."""

import random
import re
from xml.etree import ElementTree

from eval.draw import Strip, masks_svg, retention_svg

SVG = "{http://www.w3.org/2000/svg}"


def shapes(svg: str) -> list:
    """(x, y, width, height) of every rectangle in the strips' paths, strip after strip."""
    paths = [e.get("d") for e in ElementTree.fromstring(svg).iter(SVG + "path") if e.get("transform")]
    return [[tuple(map(int, m)) for m in re.findall(r"M(\d+) (\d+)h(\d+)v(\d+)h-\3", d)] for d in paths]


def painted(rects: list) -> list:
    return sorted((x + i, y + j) for x, y, w, h in rects for i in range(w) for j in range(h))


def test_adjacent_positions_held_equally_long_are_one_rectangle():
    (rects,) = shapes(retention_svg([Strip("window", "refresh", [[0, 1, 2, 5], [0, 1, 2]])], n_seen=8))
    assert sorted(rects) == [(0, 0, 3, 2), (5, 0, 1, 1)]


def test_a_position_that_stays_while_its_neighbours_come_and_go_is_one_column():
    (rects,) = shapes(retention_svg([Strip("stripes", "refresh", [[1], [1, 2], [1], [0, 1]])], n_seen=8))
    assert sorted(rects) == [(0, 3, 1, 1), (1, 0, 1, 4), (2, 1, 1, 1)]


def test_rows_of_heads_that_share_nothing_are_drawn_as_rows():
    (rects,) = shapes(retention_svg([Strip("heads", "layer, head", [[0, 1, 2, 3], [2, 3, 4, 5]])], n_seen=8))
    assert sorted(rects) == [(0, 0, 4, 1), (2, 1, 4, 1)]


def test_every_held_position_is_painted_once_and_no_other():
    rng = random.Random(0)
    rows = [sorted(rng.sample(range(60), 20)) for _ in range(9)]
    (rects,) = shapes(retention_svg([Strip("any", "refresh", rows)], n_seen=60))
    assert painted(rects) == sorted((x, y) for y, row in enumerate(rows) for x in row)


def test_a_strip_without_refreshes_is_still_a_picture():
    assert shapes(retention_svg([Strip("full cache", "refresh", [])], n_seen=8)) == [[]]


def test_titles_are_escaped_and_each_strip_has_its_own_y_label():
    svg = retention_svg([Strip("a < b & c", "refresh", [[0]]), Strip("LORE", "layer and kv head", [[1]])], n_seen=4)
    texts = [e.text for e in ElementTree.fromstring(svg).iter(SVG + "text")]
    assert {"a < b & c", "refresh", "LORE", "layer and kv head", "original token position"} <= set(texts)


def test_the_background_is_white_and_fills_the_picture():
    root = ElementTree.fromstring(retention_svg([Strip("a", "refresh", [[0]])], n_seen=4))
    assert root[0].get("fill") == "#ffffff"
    assert root[0].get("d") == f"M0 0h{root.get('width')}v{root.get('height')}h-{root.get('width')}z"


def test_three_strips_of_forty_scattered_refreshes_stay_under_200_kb():
    rng = random.Random(0)
    strips = []
    for title in "abc":
        held, rows = [], []
        for seen in range(600, 4600, 100):
            held = sorted(rng.sample(held + list(range(seen - 100 if held else 0, seen)), 500))
            rows.append(held)
        strips.append(Strip(title, "refresh", rows))
    assert len(retention_svg(strips, n_seen=4600)) < 200_000


def test_a_mask_grid_has_a_filled_square_where_one_may_look():
    causal = [[column <= row for column in range(3)] for row in range(3)]
    root = ElementTree.fromstring(masks_svg([("causal", causal), ("nobody", [[False] * 3] * 3)], [0, 5, 9]))
    squares = list(root.iter(SVG + "rect"))
    filled = [s for s in squares if s.get("fill") != "none"]
    assert (len(squares), len(filled)) == (18, 6)
    columns = sorted({float(s.get("x")) for s in filled})
    heights = [sum(float(s.get("x")) == x for s in filled) for x in columns]
    assert heights == [3, 2, 1]  # the first column is seen by all three rows
    assert [e.text for e in root.iter(SVG + "text")].count("5") == 4
