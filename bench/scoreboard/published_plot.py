"""Pictures of predictions beside measurements, as SVG. Small: the points of a group are one path."""

import math

PANEL, GAP, TITLE, LEFT = 150, 44, 16, 40
COLOURS = {"clean": "#2b6cb0", "flagged": "#c8a27a"}


def scatter_panels(panels, unit, columns=4):
    """`panels`: (title, {"clean": pairs, "flagged": pairs}) of (measured, predicted) above 0. Both axes are logarithmic."""
    panels = [(title, groups) for title, groups in panels if any(groups.values())]
    rows = -(-len(panels) // columns)
    width, height = columns * (PANEL + GAP) + LEFT, rows * (PANEL + GAP) + TITLE
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
        "<style>text{font:11px sans-serif;fill:#333}.frame{fill:#fff;stroke:#999}.same{stroke:#555}"
        ".near{stroke:#bbb;stroke-dasharray:3 2}path{fill:none;stroke-linecap:round;stroke-width:3.2;stroke-opacity:.55}</style>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    for index, (title, groups) in enumerate(panels):
        left, top = LEFT + (index % columns) * (PANEL + GAP), TITLE + (index // columns) * (PANEL + GAP) + 4
        parts.append(_panel(left, top, title, groups, unit))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(left, top, title, groups, unit):
    values = [value for pairs in groups.values() for pair in pairs for value in pair]
    low, high = min(values) / 1.15, max(values) * 1.15
    span = math.log(high / low)

    def place(value):
        return PANEL * math.log(value / low) / span

    def line(factor, name):
        """predicted = factor * measured, inside the frame."""
        begin, end = max(low, low / factor), min(high, high / factor)
        if begin >= end:
            return ""
        return (
            f'<line class="{name}" x1="{left + place(begin):.1f}" y1="{top + PANEL - place(begin * factor):.1f}" '
            f'x2="{left + place(end):.1f}" y2="{top + PANEL - place(end * factor):.1f}"/>'
        )

    parts = [
        f'<rect class="frame" x="{left}" y="{top}" width="{PANEL}" height="{PANEL}"/>',
        f'<text x="{left}" y="{top - 4}">{escaped(title)}</text>',
        line(1, "same"),
        line(1.25, "near"),
        line(0.8, "near"),
        f'<text x="{left}" y="{top + PANEL + 12}">{figure(low * 1.15)}</text>',
        f'<text x="{left + PANEL}" y="{top + PANEL + 12}" text-anchor="end">{figure(high / 1.15)} {unit}</text>',
    ]
    for name, pairs in groups.items():
        points = "".join(f"M{left + place(x):.1f} {top + PANEL - place(y):.1f}h0" for x, y in pairs)
        if points:
            parts.append(f'<path stroke="{COLOURS[name]}" d="{points}"/>')
    return "\n".join(part for part in parts if part)


def cell_bars(rows, caption):
    """`rows`: (name, {"pick", "rule", "median"} as shares of the best plan's speed). A picture of bars."""
    kinds = (
        ("pick", "#2b6cb0", "the estimate's first choice"),
        ("rule", "#c05621", "least model parallelism that fits"),
        ("median", "#b0b0b0", "the median plan"),
    )
    line, left, width = 34, 96, 620
    height = 44 + line * len(rows)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
        "<style>text{font:11px sans-serif;fill:#333}.grid{stroke:#ddd}</style>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        f'<text x="4" y="14">{escaped(caption)}</text>',
    ]
    at = left
    for _, colour, words in kinds:
        parts.append(f'<rect x="{at:.0f}" y="22" width="10" height="8" fill="{colour}"/><text x="{at + 14:.0f}" y="30">{words}</text>')
        at += 24 + 5.6 * len(words)
    scale = width - left - 60
    for index, (name, shares) in enumerate(rows):
        y = 38 + index * line
        parts.append(f'<text x="{left - 6}" y="{y + 18}" text-anchor="end">{escaped(name)}</text>')
        for place, (kind, colour, _) in enumerate(kinds):
            share = shares[kind]
            top = y + 9 * place
            parts.append(f'<rect x="{left}" y="{top}" width="{max(0.5, scale * share):.1f}" height="8" fill="{colour}"/>')
            parts.append(f'<text x="{left + scale * share + 4:.1f}" y="{top + 8}">{100 * share:.0f}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def figure(value):
    """Three digits."""
    if value >= 100 or value == 0:
        return f"{value:.0f}"
    return f"{value:.{2 - math.floor(math.log10(value))}f}".rstrip("0").rstrip(".") if value >= 1e-3 else f"{value:.1e}"


def escaped(words):
    return str(words).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
