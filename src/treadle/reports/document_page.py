"""A document as one self-contained HTML page, without a script.

All text is escaped. Bars are SVG, whose widths are attributes: the page's content policy forbids
style attributes.
"""

from collections.abc import Iterator, Sequence
from html import escape

from treadle.reports.comparison import colour
from treadle.reports.document import Document, Section, Table, Tile, cell
from treadle.reports.script_bundle import static_text
from treadle.reports.template import asset, content_policy, filled
from treadle.version import __version__

_WIDE = 1000  # units of a bar's whole


def document_page(document: Document) -> str:
    """The page as text, to be written to one file."""
    style = static_text("charts/charts.css") + asset("page.css") + asset("document.css")
    return filled(
        asset("document.html"),
        {
            "policy": escape(content_policy(style)),
            "style": style,
            "title": escape(document.title),
            "facts": escape(document.facts),
            "command": escape(document.command),
            "tiles": "\n".join(map(_tile, document.tiles)),
            "sections": "\n".join(
                _section(section, number) for number, section in enumerate(document.sections)
            ),
            "notes": "\n".join(f"<li>{escape(note)}</li>" for note in document.notes),
            "version": escape(__version__),
        },
    )


def _tile(tile: Tile) -> str:
    return (
        f'<div class="tile"><div class="tile-title">{escape(tile.title)}</div>'
        f'<div class="tile-value">{escape(tile.value)}</div>'
        f'<div class="tile-note">{escape(tile.note)}</div></div>'
    )


def _section(section: Section, number: int) -> str:
    name = f"section-{number}"
    found = "".join(f"<p>{escape(finding)}</p>" for finding in section.findings)
    tables = "".join(map(_table, section.tables))
    return (
        f'<section aria-labelledby="{name}"><h2 id="{name}">{escape(section.title)}</h2>'
        f'<p class="lead">{escape(section.lead)}</p>'
        f'<div class="findings">{found}</div>{tables}</section>'
    )


def _table(table: Table) -> str:
    title = f"<h3>{escape(table.title)}</h3>" if table.title else ""
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in table.columns)
    if table.shares:
        head += '<th class="bars"></th>'
    rows = "".join(_row(table, number) for number in range(len(table.rows)))
    note = f'<p class="note">{escape(table.note)}</p>' if table.note else ""
    label = escape(table.title or table.columns[0])
    return (
        f'{title}{_key(table)}<div class="scroll" tabindex="0" role="region" aria-label="{label}">'
        f'<table class="numbers"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
        f"{note}"
    )


def _row(table: Table, number: int) -> str:
    name, *rest = map(cell, table.rows[number])
    cells = "".join(f"<td>{escape(one)}</td>" for one in rest)
    bar = f'<td class="bars">{_bar(table.shares[number])}</td>' if table.shares else ""
    return f'<tr><th scope="row">{escape(name)}</th>{cells}{bar}</tr>'


def _key(table: Table) -> str:
    """The legend of the bars; one part needs none."""
    if len(table.parts) < 2:
        return ""
    names = "".join(
        f'<span><svg class="block" width="12" height="12" aria-hidden="true">'
        f'<rect width="12" height="12" fill="{colour(place)}"/></svg>{escape(part)}</span>'
        for place, part in enumerate(table.parts)
    )
    return f'<div class="chart-key">{names}</div>'


def _bar(shares: Sequence[float]) -> str:
    """A bar, hidden from screen readers: the numbers are in the table."""
    return (
        f'<svg class="share" viewBox="0 0 {_WIDE} 10" preserveAspectRatio="none" '
        f'aria-hidden="true">{"".join(_rectangles(shares))}</svg>'
    )


def _rectangles(shares: Sequence[float]) -> Iterator[str]:
    begin = 0.0
    for place, share in enumerate(shares):
        width = _WIDE * min(max(share, 0.0), 1.0)
        if width:
            fill = colour(place)
            yield f'<rect x="{begin:.1f}" width="{width:.1f}" height="10" fill="{fill}"/>'
        begin += width
