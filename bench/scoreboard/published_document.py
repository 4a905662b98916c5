"""A document of headings, paragraphs, tables and pictures, as one HTML page or as Markdown beside SVG files."""

import dataclasses
import pathlib
import textwrap

from published_plot import escaped

STYLE = """body{font:15px/1.5 sans-serif;max-width:70em;margin:2em auto;padding:0 1em;color:#222}
table{border-collapse:collapse;margin:1em 0;font-size:13px}td,th{border-bottom:1px solid #ddd;padding:2px 8px;text-align:right}
td:first-child,th:first-child,td.words{text-align:left}caption{text-align:left;color:#555}svg{max-width:100%;height:auto}
code{background:#f3f3f3}"""


@dataclasses.dataclass
class Heading:
    words: str
    level: int = 2


@dataclasses.dataclass
class Paragraph:
    words: str


@dataclasses.dataclass
class Table:
    header: list
    rows: list  # of texts
    words: tuple = (0,)  # columns that hold words, not numbers


@dataclasses.dataclass
class Picture:
    name: str  # a file's, without .svg
    words: str
    svg: str


@dataclasses.dataclass
class Code:
    lines: list


def html(parts, title):
    body = "\n".join(_html(part) for part in parts)
    return f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{escaped(title)}</title>\n<style>{STYLE}</style>\n{body}\n</html>\n'


def _html(part):
    if isinstance(part, Heading):
        return f"<h{part.level}>{escaped(part.words)}</h{part.level}>"
    if isinstance(part, Paragraph):
        return f"<p>{_code_marked(escaped(part.words))}</p>"
    if isinstance(part, Code):
        return "<pre>" + "\n".join(map(escaped, part.lines)) + "</pre>"
    if isinstance(part, Picture):
        return f"<figure>{part.svg}<figcaption>{escaped(part.words)}</figcaption></figure>"
    head = "".join(f"<th>{escaped(word)}</th>" for word in part.header)
    rows = "\n".join(
        "<tr>"
        + "".join(
            f'<td{" class=words" if index in part.words else ""}>{_code_marked(escaped(cell))}</td>' for index, cell in enumerate(row)
        )
        + "</tr>"
        for row in part.rows
    )
    return f"<table><tr>{head}</tr>\n{rows}</table>"


def _code_marked(words):
    """`x` -> <code>x</code>."""
    pieces = words.split("`")
    if len(pieces) % 2 == 0:
        return words
    return "".join(f"<code>{piece}</code>" if index % 2 else piece for index, piece in enumerate(pieces))


def markdown(parts, pictures):
    """Writes the pictures into the folder `pictures`, and returns text that stands beside that folder."""
    return "\n\n".join(_markdown(part, pathlib.Path(pictures)) for part in parts) + "\n"


def _markdown(part, pictures):
    if isinstance(part, Heading):
        return "#" * part.level + " " + part.words
    if isinstance(part, Paragraph):
        return textwrap.fill(part.words, 140, break_long_words=False, break_on_hyphens=False)
    if isinstance(part, Code):
        return "\n".join("    " + line for line in part.lines)
    if isinstance(part, Picture):
        pictures.mkdir(parents=True, exist_ok=True)
        (pictures / f"{part.name}.svg").write_text(part.svg)
        return f"![{part.words}]({pictures.name}/{part.name}.svg)"
    rule = [("---" if index in part.words else "---:") for index in range(len(part.header))]
    lines = [part.header, rule, *part.rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "/") for cell in line) + " |" for line in lines)
