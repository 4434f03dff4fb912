"""A document in a terminal, and as a page without scripts."""

from html.parser import HTMLParser

from treadle.reports.document import Document, Section, Table, Tile
from treadle.reports.document_page import document_page
from treadle.reports.document_text import document_text

HOSTILE = "</td><script>document.title='owned'</script>"
TABLE = Table(
    "Why",
    ("size", "a", "b"),
    [("all", "75.0%", "25.0%"), ("1", "9 h", None)],
    "They add up.",
    parts=("a", "b"),
    shares=[(0.75, 0.25), (0.5, 0.5)],
)


def written(**changes: object) -> Document:
    values: dict[str, object] = {
        "title": "Two rows",
        "facts": "2 jobs",
        "command": "treadle analyze two.csv",
        "tiles": [Tile("Mean wait", "3 s", "of 2 jobs")],
        "sections": [Section("Waiting", "What it means.", ["No job waited."], [TABLE])],
        "notes": ["made by hand"],
    }
    return Document(**{**values, **changes})  # type: ignore[arg-type]


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_a_terminal_gets_findings_tables_and_notes() -> None:
    assert document_text(written()) == (
        "Two rows\n"
        "2 jobs\n"
        "\n"
        "WAITING\n"
        "No job waited.\n"
        "\n"
        "Why\n"
        "size      a      b\n"
        "────  ─────  ─────\n"
        "all   75.0%  25.0%\n"
        "1       9 h      -\n"
        "They add up.\n"
        "\n"
        "note: made by hand\n"
    )


def test_a_page_holds_everything_and_asks_for_nothing() -> None:
    text = document_page(written())
    tags = Tags(text).found
    assert not [tag for tag, _ in tags if tag in {"script", "img", "iframe"}]
    assert not [values for _, values in tags if "style" in values or "src" in values]
    for word in ("Two rows", "Mean wait", "No job waited.", "What it means.", "made by hand"):
        assert word in text
    bars = [float(values["width"] or 0) for tag, values in tags if tag == "rect" and "x" in values]
    assert bars == [750, 250, 500, 500]
    policy = next(v["content"] for _, v in tags if v.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
