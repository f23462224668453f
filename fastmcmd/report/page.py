"""One self-contained HTML page: sections, tables, pictures. All text is escaped here.

The page may run and apply only what it contains: its content security policy names the hashes of its
script and its style sheet, and forbids everything else, requests to a network included.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

from fastmcmd._base.tables import printable

__all__ = [
    "SCRIPTS", "Cell", "Section", "data_block", "figure", "heading", "note", "page", "paragraph",
    "pictures", "script", "scripted", "table",
]  # fmt: skip

# The parts of the script, in order: each uses the parts before it.
SCRIPTS = (
    "sort", "arrays", "binomial", "sums", "region", "filter", "drawing", "charts", "histograms", "heat_map",
    "rows", "explorer",
)  # fmt: skip


def _escape(text: str) -> str:
    """Return text from data for HTML, with control characters and invisible characters escaped."""
    return html.escape(printable(text, lines=True))


@dataclass(frozen=True)
class Section:
    """A part of the page under a heading; ``body`` is HTML made by the functions of this file."""

    anchor: str
    title: str
    body: str


@dataclass(frozen=True)
class Cell:
    """A cell of a table.

    Attributes
    ----------
    text : str
    value : float or None
        What the column is sorted by.
    kind : str
        "" for a number, "word" for a few words, "text" for sentences, "best" for the best of a row.
    """

    text: str
    value: float | None = None
    kind: str = ""

    def html(self) -> str:
        """Return the cell as HTML."""
        kind = f' class="{self.kind}"' if self.kind else ""
        value = "" if self.value is None else f' data-value="{self.value!r}"'
        return f"<td{kind}{value}>{_escape(self.text)}</td>"


def paragraph(text: str, kind: str = "") -> str:
    """Return text as a paragraph of a class such as "how"."""
    return f'<p class="{kind}">{_escape(text)}</p>' if kind else f"<p>{_escape(text)}</p>"


def note(text: str) -> str:
    """Return a highlighted note."""
    return paragraph(text, "note")


def table(
    head: Sequence[str], rows: Sequence[Sequence[Cell] | str], *, sortable: bool = False
) -> str:
    """Return a table; a row that is a string is the heading of the rows below it."""
    first = next((row for row in rows if not isinstance(row, str)), ())
    kinds = [cell.kind for cell in first] or [""] * len(head)

    def head_cell(name: str, kind: str) -> str:
        inner = f'<button type="button">{_escape(name)}</button>' if sortable else _escape(name)
        class_attribute = f' class="{kind}"' if kind in ("word", "text") else ""
        return f'<th scope="col"{class_attribute}>{inner}</th>'

    heads = [head_cell(name, kind) for name, kind in zip(head, kinds, strict=True)]
    lines = ['<div class="scroll"><table><thead><tr>', *heads, "</tr></thead><tbody>"]
    for row in rows:
        if isinstance(row, str):
            lines.append(
                f'<tr class="section"><th colspan="{len(head)}" scope="rowgroup">{_escape(row)}</th></tr>'
            )
        else:
            lines.append("<tr>" + "".join(cell.html() for cell in row) + "</tr>")
    return "".join(lines) + "</tbody></table></div>"


def heading(text: str) -> str:
    """Return a heading within a section."""
    return f"<h3>{_escape(text)}</h3>"


def figure(svg: str, title: str, caption: str) -> str:
    """Return a picture (SVG made by `pictures.svg`) with its title and a caption."""
    caption_html = f"<figcaption><strong>{_escape(title)}</strong> {_escape(caption)}</figcaption>"
    return f"<figure>{svg}{caption_html}</figure>"


def pictures(figures: Sequence[str], kind: str = "") -> str:
    """Return pictures side by side; with kind "three", smaller ones, three in a row."""
    return f'<div class="{f"pictures {kind}".strip()}">{"".join(figures)}</div>'


def scripted(anchor: str, without: str) -> str:
    """Return the placeholder for the script's output, and the text shown without JavaScript."""
    return f'<div id="{anchor}"></div><noscript><p class="note">{_escape(without)}</p></noscript>'


def data_block(anchor: str, data: object) -> str:
    """Return JSON data for the script; browsers do not run it."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return f'<script type="application/json" id="{anchor}">{text.replace("<", chr(92) + "u003c")}</script>'


def script() -> str:
    """Return the whole script: the files of `SCRIPTS` in one function scope."""
    files = resources.files("fastmcmd.report")
    parts = [files.joinpath(f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS]
    return '(() => {\n"use strict";\n' + "\n".join(parts) + "})();\n"


def _classes_for_styles(body: str) -> tuple[str, str]:
    """Return the body with a class in place of each style attribute, and the rules of these classes.

    A policy without 'unsafe-inline' forbids style attributes. Only tags that matplotlib wrote have any,
    and in text of the page "<" is escaped, so that no text looks like a tag.
    """
    names: dict[str, str] = {}

    def without_style(tag: re.Match[str]) -> str:
        name = names.setdefault(tag[2].strip(), f"s{len(names)}")
        return f'{tag[1]} class="{name}"{tag[3]}'

    body = re.sub(r'(<[a-zA-Z][^<>]*?) style="([^"<>]*)"([^<>]*>)', without_style, body)
    rules = "".join(f".{name}{{{rule}}}" for rule, name in names.items())
    return body, rules


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def page(title: str, lead: str, sections: Sequence[Section], foot: str) -> str:
    """Return the whole page, which contains its style and script and needs no network."""
    files = resources.files("fastmcmd.report")
    links = "".join(f'<a href="#{s.anchor}">{_escape(s.title)}</a>' for s in sections)
    body, rules = _classes_for_styles(
        "".join(
            f'<section id="{s.anchor}"><h2>{_escape(s.title)}</h2>{s.body}</section>'
            for s in sections
        )
    )
    style = files.joinpath("report.css").read_text(encoding="utf-8") + rules
    code = script()
    policy = (
        f"default-src 'none'; script-src {_hash(code)}; style-src {_hash(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>{_escape(title)}</title><link rel="icon" href="data:,">'
        f"<style>{style}</style></head><body><header><h1>{_escape(title)}</h1>"
        f'<p class="lead">{_escape(lead)}</p><nav aria-label="Sections">{links}</nav></header>'
        f"<main>{body}</main><footer>{_escape(foot)}</footer><script>{code}</script></body></html>"
    )
