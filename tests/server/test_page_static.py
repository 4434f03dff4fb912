"""The files of the web page: small, plain, and without ways to run what a user wrote."""

import re
from pathlib import Path

import treadle.server

STATIC = Path(treadle.server.__file__).parent / "static"
OURS = [path for path in sorted(STATIC.rglob("*")) if path.is_file() and "vendor" not in path.parts]
SCRIPTS = [path for path in OURS if path.suffix == ".js"]
BYTES_MAX = 310_000
LINES_MAX = 400


def test_all_files_together_are_small() -> None:
    sizes = {path: path.stat().st_size for path in STATIC.rglob("*") if path.is_file()}
    assert sum(sizes.values()) < BYTES_MAX


def test_a_script_is_short_and_opens_with_its_idea() -> None:
    long = [path.name for path in SCRIPTS if len(path.read_text().splitlines()) > LINES_MAX]
    bare = [path.name for path in SCRIPTS if not path.read_text().startswith("// ")]
    assert not long, f"more than {LINES_MAX} lines: {long}"
    assert not bare, f"no comment at the top: {bare}"


def test_text_of_users_can_only_become_text() -> None:
    ways = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc"
        r"|dangerouslySetInnerHTML|DOMParser|javascript:"
    )
    found = {path.name: ways.findall(path.read_text()) for path in SCRIPTS}
    assert not {name: each for name, each in found.items() if each}


def test_the_page_names_no_other_host() -> None:
    """Namespaces of SVG are names, not requests."""
    address = re.compile(r"https?://(?!www\.w3\.org/)[\w.-]+")
    found = {path.name: address.findall(path.read_text()) for path in OURS}
    assert not {name: each for name, each in found.items() if each}


def test_every_module_that_is_imported_is_there() -> None:
    wanted = re.compile(r"""(?:from|import\()\s*["'](\.[^"']+)["']""")
    missing = [
        f"{path.name}: {name}"
        for path in SCRIPTS
        for name in wanted.findall(path.read_text())
        if not (path.parent / name).resolve().is_file()
    ]
    assert not missing
