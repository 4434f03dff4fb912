"""A document for a terminal: findings in sentences, tables at most 100 columns wide."""

from collections.abc import Iterator, Sequence
from textwrap import fill

from treadle.reports.document import Document, Section, Table, cell
from treadle.reports.table import WIDTH_MAX


def document_text(document: Document) -> str:
    """The whole document, without the introductions of sections; those are for the page."""
    lines = [document.title, _wrapped(document.facts), ""]
    for section in document.sections:
        lines += [*_section(section), ""]
    lines += [_wrapped(f"note: {note}") for note in document.notes]
    return "\n".join(lines).rstrip("\n") + "\n"


def _section(section: Section) -> Iterator[str]:
    yield section.title.upper()
    for finding in section.findings:
        yield _wrapped(finding)
    for number, table in enumerate(section.tables):
        if number or section.findings:
            yield ""
        yield from _table(table)


def _table(table: Table) -> Iterator[str]:
    if table.title:
        yield table.title
    rows = [[cell(value) for value in row] for row in table.rows]
    widths = [max(map(len, column)) for column in zip(table.columns, *rows, strict=True)]
    yield _line(table.columns, widths)
    yield "  ".join("─" * width for width in widths)
    yield from (_line(row, widths) for row in rows)
    if table.note:
        yield _wrapped(table.note)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = zip(cells, widths, strict=True)
    return "  ".join([first[0].ljust(first[1]), *(text.rjust(width) for text, width in rest)])


def _wrapped(text: str) -> str:
    return fill(text, WIDTH_MAX, break_on_hyphens=False, break_long_words=False)
