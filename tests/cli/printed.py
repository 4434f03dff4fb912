"""Pages that show what commands print: each block is compared with what they really print.

A block stands behind a marker, `<!-- printed: NAME -->`. Lengths of time, percentages and how many
jobs ended meanwhile differ from run to run, so both sides are compared without them, and without
the width of columns. TREADLE_UPDATE=1 writes what was printed into the page.
"""

import os
import re
from pathlib import Path

from tests.control.daemons import Daemon
from tests.control.warm_start import ran

_TIME = r"(?:\d+(?:\.\d+)?-)?\d+(?:\.\d+)? ?(?:s|min|m|h)(?:\d\ds)?\b"
_UNSTEADY = (
    (re.compile(rf"(?:at once|within {_TIME}|in (?:about |up to )?{_TIME})"), "<in>"),
    (re.compile(rf"(?:(?:about|up to) {_TIME}|less than 1s)"), "<t>"),
    (re.compile(rf"(?:{_TIME} to {_TIME}|{_TIME}-{_TIME}|{_TIME})"), "<t>"),
    (re.compile(r"\ba moment\b"), "<t>"),
    (re.compile(r"\b\d+%"), "<p>"),
    (re.compile(r", when jobs? [\w, ]+ ends?\b"), ""),  # of jobs that end together, either
    (re.compile(r"\b(\d+\w\w)(?: (?:or|to) \d+\w\w)? of (?=\d+ to start)"), "<place> of "),
    (re.compile(r"\b\d+ (?=runs of|other jobs? have run)"), "<n> "),
    (re.compile(r"^((?:\S+ +){10})[^\n]*\.\.$", re.MULTILINE), r"\1.."),  # cut to the terminal
    (re.compile(r"\s+"), " "),
)


class Transcript:
    """Commands as they are typed, and what they print."""

    def __init__(self, here: Daemon, width: int = 100) -> None:
        self._env = {**os.environ, "TREADLE_URL": f"unix:{here.socket}", "COLUMNS": str(width)}
        self._said: list[str] = []

    def run(self, line: str, *words: str, upto: str = "", show: bool = True) -> str:
        """Run a command. line: as the page shows it. upto: where what is shown ends."""
        done = ran(*words, env=self._env)
        assert done.returncode == 0, done.stderr
        shown = done.stdout.partition(upto)[0] if upto else done.stdout
        if show:
            self._said.append(f"$ {line}\n{shown.rstrip()}\n")
        return shown

    def __str__(self) -> str:
        return "\n".join(self._said)


def check_page(page: Path, name: str, said: str) -> None:
    """The block of this name in the page is what was printed."""
    text = page.read_text()
    block = re.compile(rf"(<!-- printed: {re.escape(name)} -->\n```text\n)(.*?)(```)", re.DOTALL)
    found = block.search(text)
    assert found is not None, f"{page.name} has no block {name}"
    if os.environ.get("TREADLE_UPDATE") == "1":
        page.write_text(text[: found.start(2)] + said + text[found.end(2) :])
        return
    shown, printed = steady(found[2]), steady(said)
    assert shown == printed, f"{page.name} shows\n{shown}\nand printed is\n{printed}"


def steady(text: str) -> str:
    """What is the same in every run."""
    for pattern, word in _UNSTEADY:
        text = pattern.sub(word, text)
    return text.strip()
