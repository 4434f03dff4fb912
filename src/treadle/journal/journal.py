"""Append a run to a journal, read it back step by step, and rebuild the scheduler from it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from treadle.core import actions as orders
from treadle.core.actions import Action
from treadle.core.errors import InvalidInputError
from treadle.core.events import AttemptEnded, Event
from treadle.core.ports import Policy
from treadle.core.retry import RetryRule, fixed
from treadle.core.scheduler import Scheduler
from treadle.journal.codec import (
    FORMAT,
    LINE_MAX,
    Decided,
    Noted,
    Opened,
    PolicySet,
    decided,
    decode,
    encode,
)
from treadle.journal.facts import RecordFact


@dataclass(slots=True)
class Step:
    """The scheduler's input and output at one moment."""

    now: float
    events: list[Event] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)
    wake_at: float | None = None  # None: the policy was not asked
    held_back: Mapping[int, int] = field(default_factory=dict)  # as in Decided
    policy: PolicySet | None = None  # the new policy, if it changed just before this step
    line: int = field(default=0, compare=False)  # of the journal, where the step begins


class JournalWriter:
    """Writes every step of a loop; use it as an observer of the loop."""

    def __init__(self, file: BinaryIO, opened: Opened) -> None:
        self._file = file
        self._decisions = 0
        self._lines = 0
        self._write(0.0, opened)

    def __call__(
        self, now: float, events: Sequence[Event], actions: Sequence[Action], scheduler: Scheduler
    ) -> None:
        for event in events:
            self._write(now, event)
        if scheduler.decisions != self._decisions:
            self._decisions = scheduler.decisions
            held_back = scheduler.policy.held_back(scheduler.snapshot(now))
            self._write(now, decided(scheduler.wake_at, held_back))
        for action in actions:
            self._write(now, action)

    def _write(self, at: float, line: Opened | Decided | Event | Action) -> None:
        self._lines += 1
        self._file.write(encode(at, line, number=self._lines) + b"\n")


@dataclass(frozen=True, slots=True)
class Journal:
    """The content of a journal file."""

    opened: Opened
    steps: Sequence[Step]
    cut_off: bool  # the last line was incomplete, as after a crash in the middle of a write


def read(path: Path) -> Journal:
    """Read a whole journal. An incomplete last line is skipped; any other fault is an error."""
    try:
        with path.open("rb") as file:
            return _read(path.name, file)
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be read: {error.strerror}") from None


def replay(journal: Journal, policy: Policy, *, retry: RetryRule = fixed) -> Scheduler:
    """The scheduler as it was after the last step. The policy only ranks; it does not decide.

    The retry rule must be the one of the recorded run: the journal does not say what was retried.
    """
    scheduler = Scheduler(policy, journal.opened.cluster, retry=retry)
    for step in journal.steps:
        scheduler.replay(step.events, step.actions, step.now, wake_at=step.wake_at)
    return scheduler


def _read(name: str, file: BinaryIO) -> Journal:
    lines = _lines(name, file)
    number, first = next(lines, (1, b""))
    try:
        _, opened = _decode(name, number, first)
    except InvalidInputError as error:
        raise InvalidInputError(f"{error}; is it a journal?") from None
    if not isinstance(opened, Opened):
        raise InvalidInputError(f"{name} line 1: expected the kind Opened; is it a journal?")
    if opened.format != FORMAT:
        raise InvalidInputError(
            f"{name} line 1: a journal of format {opened.format}; this version reads {FORMAT}"
        )
    steps: list[Step] = []
    cut_off = False
    for number, line in lines:
        if not line.endswith(b"\n"):
            cut_off = True
            break
        now, value = _decode(name, number, line)
        problem = _out_of_order(steps, now, value)
        if problem:
            raise InvalidInputError(f"{name} line {number}: {problem}; is it two journals in one?")
        _append(steps, now, value, number)
    return Journal(opened, steps, cut_off)


def _out_of_order(steps: list[Step], now: float, value: object) -> str:
    if isinstance(value, Opened):
        return "a journal begins here"
    return f"the time goes back from {steps[-1].now:g} s" if steps and now < steps[-1].now else ""


def _append(steps: list[Step], now: float, value: object, number: int) -> None:
    """A step is events, then the decision, then orders; an event after those starts a new step."""
    if isinstance(value, AttemptEnded) and value.meaning is None and not value.only_on:
        return
    if isinstance(value, Noted | RecordFact):
        return
    last = steps[-1] if steps else None
    is_action = isinstance(value, orders.Start | orders.Change | orders.Stop)
    begins = last is None or last.now != now
    if last is not None and not is_action:
        begins = begins or bool(last.actions) or last.wake_at is not None
    if begins or last is None:
        last = Step(now, line=number)
        steps.append(last)
    if isinstance(value, Decided):
        last.wake_at, last.held_back = value.moment, dict(value.held_back)
    elif isinstance(value, PolicySet):
        last.policy = value
    elif isinstance(value, orders.Start | orders.Change | orders.Stop):
        last.actions.append(value)
    else:
        last.events.append(value)  # type: ignore[arg-type]  # the codec gives nothing else


def _lines(name: str, file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    number = 0
    while line := file.readline(LINE_MAX + 1):
        number += 1
        if len(line) > LINE_MAX:
            raise InvalidInputError(f"{name} line {number}: longer than {LINE_MAX} bytes")
        yield number, line


def _decode(name: str, number: int, line: bytes) -> tuple[float, object]:
    try:
        return decode(line, number=number)
    except InvalidInputError as error:
        raise InvalidInputError(f"{name} line {number}: {error}") from None
