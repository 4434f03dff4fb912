"""Log lines without colours, progress bars and prefixes.

Launchers put a prefix before each line: `[rank3]:`, `[1,3]<stderr>:`, a time, a host. The prefix
names the process (the stream), the body is its output. Tracebacks of several ranks are interleaved,
so each line has a stream, and the classifier looks back within one stream only.

The regular expressions here have no nested repetition and are bounded, so that a line takes linear
time. Users' patterns never become regular expressions.
"""

import json
import re
from collections.abc import Iterable
from unicodedata import category

from treadle.core.value import value

LINES_MAX = 4000
LINE_LENGTH_MAX = 2000

_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b.?")
# Unicode categories of invisible characters that can change how text is shown.
_UNSEEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
_RANK = r"\d{1,6}"
_PREFIX = re.compile(
    "|".join(
        (
            rf"\[rank(?P<a>{_RANK})\]: ?",
            rf"\[(?:default|trainer|worker)(?P<b>{_RANK})\]: ?",
            rf"\[{_RANK},(?P<c>{_RANK})\]<std(?:err|out)>: ?",
            rf" {{0,5}}(?P<d>{_RANK}): (?=\S| {{2}})",
            rf"\([\w.:<>-]{{1,60}} (?:pid|rank)=(?P<e>{_RANK})(?:, ip=[\d.]{{7,15}})?\) ?",
            r"(?P<f>[a-z][\w.-]{0,60}\d): (?=\S| {2})",
            r"\[?(?P<moment>\d{4}-\d\d-\d\d[T_ ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)Z?\]? ?",
            r"std(?:err|out) [FP] ",
            r"[\w.-]{1,60} {1,4}\| (?=[ A-Z\[])",
            r" {2,40}(?:\| |\+ (?=Exception Group Traceback))",
        )
    )
)
_LEVEL = re.compile(
    r"[ \-|:]{0,3}\[?(?:ERROR|CRITICAL|FATAL)\]?[ \-|:]{1,4}(?:[a-z_][\w.]{0,60}: ?)?"
)
_EXCEPTION = re.compile(r"[ │]{0,12}([A-Za-z_][\w.]{1,150})(?:: |:$|$)")
_FRAME = re.compile(
    r"[ │]{0,12}File \"|╰─"
    r"|[ │╭─]{0,30}(?:Original |Exception Group )?Traceback \(most recent call last\)"
)
_BAR = re.compile(r"\d{1,3}%\|")
_COUNTER = re.compile(r"(?:step|iter|iteration|epoch|batch|update)s?\W{0,4}\d", re.IGNORECASE)
_METRICS = ("loss", "lr", "acc", "ppl", "it/s", "s/it", "tok/s", "eta", "time")
_SPEECH = re.compile(
    r"\s{0,8}[\"'>]?(?:sample|prompt|generat|completion|response|input|target|text|example|question"
    r"|answer|user|assistant|instruction)[\w ]{0,20}[\"']?[:=]",
    re.IGNORECASE,
)
_ENDINGS = ("Error", "Exception", "Interrupt", "Failure", "Timeout")


@value
class Line:
    body: str
    stream: str  # The rank or host of its prefix; "" if none.
    line_from_end: int
    moment: str  # The time of its prefix; "" if none.

    @property
    def exception(self) -> tuple[str, str] | None:
        """Type and message, if the line looks like a raised exception."""
        level = _LEVEL.match(self.body)
        body = self.body[level.end() :] if level else self.body
        found = _EXCEPTION.match(body)
        if found is None:
            return None
        name = found[1]
        last = name.rpartition(".")[2]
        if not (last.endswith(_ENDINGS) or (name != last and last[:1].isupper())):
            return None
        return name, body[found.end() :]

    @property
    def frame(self) -> bool:
        """Whether the line belongs to a traceback: its head or one of its frames."""
        return _FRAME.match(self.body) is not None

    @property
    def progress(self) -> bool:
        """Whether the line reports training progress."""
        if "%|" in self.body and _BAR.search(self.body):
            return True
        if _COUNTER.search(self.body) is None:
            return False
        lowered = self.body.lower()
        return any(word in lowered for word in _METRICS)

    @property
    def speech(self) -> bool:
        """Whether the line shows a data sample or a warning, whose words report no failure."""
        return _SPEECH.match(self.body) is not None or "Warning: " in self.body[:300]


def clean(text: str) -> list[str]:
    """The last lines as a terminal would show them, bounded in number and length."""
    kept = text.split("\n")[-LINES_MAX - 1 :]
    if kept and not kept[-1]:
        kept.pop()
    return [_clean_line(line) for line in kept[-LINES_MAX:]]


def parse(lines: Iterable[str]) -> list[Line]:
    """Split off prefixes; lines are numbered from the end."""
    listed = list(lines)
    return [_parse(line, len(listed) - place) for place, line in enumerate(listed)]


def _clean_line(line: str) -> str:
    line = _unwrapped(line).rstrip("\r\n")
    if "\r" in line:
        # A progress bar overwrites its line; the last text is what shows.
        line = next((part for part in reversed(line.split("\r")) if part.strip()), "")
    if len(line) > 4 * LINE_LENGTH_MAX:
        line = line[: 2 * LINE_LENGTH_MAX] + line[-2 * LINE_LENGTH_MAX :]
    if "\x1b" in line:
        line = _ESCAPES.sub("", line)
    if not line.isprintable():
        unseen = (mark for mark in set(line) if mark != "\t" and category(mark) in _UNSEEN)
        line = line.translate(dict.fromkeys(map(ord, unseen)))
    if len(line) > LINE_LENGTH_MAX:
        half = LINE_LENGTH_MAX // 2
        line = f"{line[:half]} ... {line[-half:]}"
    return line


def _unwrapped(line: str) -> str:
    """The text of a line that Docker's json-file driver wrapped in an object."""
    if not line.startswith('{"log":'):
        return line
    try:
        said = json.loads(line)["log"]
    except (ValueError, RecursionError):
        return line
    return said if isinstance(said, str) else line


def _parse(line: str, line_from_end: int) -> Line:
    stream, moment, start = "", "", 0
    for _ in range(4):
        found = _PREFIX.match(line, start)
        if found is None:
            break
        start = found.end()
        if found.lastgroup == "moment":
            moment = found["moment"]
        elif found.lastgroup:
            stream = found[found.lastgroup]
    return Line(line[start:], stream, line_from_end, moment)
