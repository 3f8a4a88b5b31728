"""Pictures as SVG text, so that they diff in git: what was still held, and small grids of masks."""

from dataclasses import dataclass
from html import escape

INK, TEXT, LINE = "#2f62c9", "#222222", "#b8bec6"
WIDTH, LEFT, RIGHT, TOP, HEIGHT, GAP = 800, 62, 18, 26, 120, 30  # of a strip, in SVG units; HEIGHT is its plot's


@dataclass
class Strip:
    """`rows[y]` lists the original positions still held; `y_label`: what a row is (a refresh, a layer and head)."""

    title: str
    y_label: str
    rows: list


def retention_svg(strips: list, n_seen: int) -> str:
    """One Strip above the other. x = original position, 0 to `n_seen`; y = row, downwards; a mark = still held."""
    step = TOP + HEIGHT + GAP
    parts = [drawn_strip(strip, n_seen, TOP + i * step) for i, strip in enumerate(strips)]
    height = step * len(strips) + 14
    parts.append(words("original token position", (LEFT + WIDTH - RIGHT) / 2, height - 8, "middle"))
    return document(WIDTH, height, parts)


def drawn_strip(strip: Strip, n_seen: int, top: int) -> str:
    """Title, frame, tick labels and one path in units of (position, row)."""
    n_row, width = max(1, len(strip.rows)), WIDTH - LEFT - RIGHT
    scale = f"translate({LEFT} {top}) scale({width / n_seen:.6g} {HEIGHT / n_row:.6g})"
    middle = top + HEIGHT / 2
    parts = [
        words(strip.title, LEFT, top - 7, "start", 'font-weight="bold"'),
        f'<path d="{path(strip.rows)}" fill="{INK}" transform="{scale}"/>',
        f'<rect x="{LEFT}" y="{top}" width="{width}" height="{HEIGHT}" fill="none" stroke="{LINE}"/>',
        words(strip.y_label, 16, middle, "middle", f'transform="rotate(-90 16 {middle:g})"'),
        words(1, LEFT - 6, top + 11, "end"),
        words(len(strip.rows), LEFT - 6, top + HEIGHT, "end"),
    ]
    for position in dict.fromkeys(n_seen * i // 4 for i in range(5)):
        parts.append(words(position, LEFT + width * position / n_seen, top + HEIGHT + 14, "middle"))
    return "\n".join(parts)


def path(rows: list) -> str:
    """SVG path data with one closed shape a rectangle, from merged rows or merged columns, whichever are fewer."""
    columns = [[] for _ in range(max((max(row, default=-1) for row in rows), default=-1) + 1)]
    for y, row in enumerate(rows):
        for x in row:
            columns[x].append(y)
    across = rectangles(rows)
    down = [(x, y, w, h) for y, x, h, w in rectangles(columns)]
    return "".join(f"M{x} {y}h{w}v{h}h-{w}" for x, y, w, h in min(across, down, key=len))


def rectangles(rows: list) -> list:
    """(x, y, width, height) of runs of adjacent positions; equal runs in rows below one another are one rectangle."""
    done, growing = [], {}  # growing: (start, end) -> the row where it began
    for y, row in enumerate([*rows, []]):
        here = runs(row)
        done += [(a, top, b - a, y - top) for (a, b), top in growing.items() if (a, b) not in here]
        growing = {run: growing.get(run, y) for run in here}
    return sorted(done)


def runs(positions: list) -> dict:
    """{0, 1, 2, 6} -> {(0, 3), (6, 7)}, as the keys of a dict so that their order stays."""
    held = set(positions)
    starts = [p for p in sorted(held) if p - 1 not in held]
    ends = [p + 1 for p in sorted(held) if p + 1 not in held]
    return dict.fromkeys(zip(starts, ends, strict=True))


def masks_svg(grids: list, labels: list) -> str:
    """A row of (title, rows of booleans); `labels` name rows and columns by their original position."""
    cell, side = 18, 18 * len(labels)
    parts, left, top = [], 34, 44
    for title, grid in grids:
        parts.append(words(title, left, 16, "start", 'font-weight="bold"'))
        for y, name in enumerate(labels):
            parts.append(words(name, left + (y + 0.5) * cell, top - 5, "middle"))
            parts.append(words(name, left - 6, top + (y + 0.75) * cell, "end"))
        for y, row in enumerate(grid):
            for x, may_look in enumerate(row):
                place = f'x="{left + x * cell}" y="{top + y * cell}" width="{cell}" height="{cell}"'
                parts.append(f'<rect {place} fill="{INK if may_look else "none"}" stroke="{LINE}"/>')
        left += max(side + 40, 8 * len(title))  # a bold letter is under 8 units wide on average
    return document(left, top + side + 10, parts)


def words(text, x: float, y: float, anchor: str, more: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" {more}>{escape(str(text))}</text>'


def document(width: int, height: int, parts: list) -> str:
    """White behind everything: the text must be legible on a dark page too."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    style = f'font-family="sans-serif" font-size="12" fill="{TEXT}"'
    paper = f'<path d="M0 0h{width}v{height}h-{width}z" fill="#ffffff"/>'
    return "\n".join([f"{head} {style}>", paper, *parts, "</svg>\n"])
