"""What was learned from jobs that ran, for those that are submitted later.

The learner is `treadle.models.learning.knowledge`, which the simulator runs as well. This module is
its adapter: kinds from command lines, stored rows in and out, a job's expected length and profile.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf
from threading import Lock
from typing import NamedTuple

import msgspec

from treadle.core.job import Profile
from treadle.models.learning.expectation import Expectation as Learned
from treadle.models.learning.forecasts import PRIOR_RUNS
from treadle.models.learning.kind_history import History
from treadle.models.learning.kinds import NO_VARIABLES, Kind, Source, by_command, numbers
from treadle.models.learning.knowledge import KINDS_MAX, Knowledge
from treadle.models.learning.outcome import Outcome
from treadle.models.lengths.distribution import Lengths
from treadle.models.lengths.gittins import equivalent_s
from treadle.store.rows import ProfileRow
from treadle.wire.notation import CARRIED

# Rows read at the start: what one owner wrote last must not hide what others wrote.
PROFILES_MAX = 5 * KINDS_MAX
UNKNOWN_S = 3600.0  # what policies are given of a job that nothing is known of; people are not
ANSWERS_MAX = 1024
_SHOWN = {
    Source.SAME_COMMAND: "its own past",
    Source.SAME_NEEDS: "jobs like it",
    Source.ALIKE: "jobs like it",
    Source.SAME_SCRIPT: "jobs like it",
    Source.SAME_USER: "jobs of its user",
    Source.EVERYTHING: "jobs on this machine",
    Source.ITS_USER: "its user",
}
CLOSER = (Source.SAME_COMMAND, Source.SAME_NEEDS, Source.ALIKE)  # than what its user says of it
CLOSE = (*CLOSER, Source.SAME_SCRIPT)
logger = logging.getLogger("treadle")


@dataclass(frozen=True, slots=True)
class Question:
    """What a job says of itself: the kinds it belongs to, and what its user asked for."""

    keys: tuple[Kind, ...]  # the closest first
    asked: int
    sizes: tuple[int, ...] = ()  # those it may have
    model: str = ""
    estimate_s: float | None = None  # of its user
    numbers: tuple[float, ...] = ()  # of its command line
    limit_s: float | None = None

    @classmethod
    def of(
        cls,
        program: "Program",
        *,
        asked: int,
        sizes: Sequence[int],
        estimate_s: float | None,
        limit_s: float | None,
    ) -> "Question":
        found = numbers_of(program.command, program.env)
        sizes = tuple(sizes)
        return cls(program.keys, asked, sizes, program.model, estimate_s, found, limit_s)


class Program(NamedTuple):
    """What a job runs, whose it is, and where."""

    owner: str
    model: str
    command: tuple[str, ...]
    folder: str = ""
    env: Mapping[str, str] = NO_VARIABLES

    @property
    def keys(self) -> tuple[Kind, ...]:
        return keys_of(self.owner, self.model, self.command, folder=self.folder, env=self.env)


@dataclass(frozen=True, slots=True)
class Expectation:
    """How long a job is expected to take, how it scales, and why we think so."""

    length_s: float  # the mean, for whatever asks when a job will be gone
    order_s: float  # the length by which policies order it; 0: length_s
    profile: Profile
    source: str  # "its own past", "jobs like it" ... "nothing"
    learned: Learned  # the whole answer: the distribution, its doubt, steps
    known: bool  # False: it rests on a prior, and people are shown "unknown"


class Profiles:
    """Profiles by kind of job. Changes since they were last asked for are to be written.

    Questions are also answered beside the event loop, so what reads and what changes take turns.
    """

    def __init__(self, rows: Iterable[ProfileRow] = ()) -> None:
        """`rows`: what was stored, the one that changed last at the end."""
        self.knowledge = Knowledge(_readable(rows))
        self._lock = Lock()
        self._answers: dict[Question, Expectation] = {}  # until something else is learned

    def ask(self, question: Question) -> Expectation:
        """What to expect of a job."""
        with self._lock:
            found = self._answers.get(question)
            if found is None:
                if len(self._answers) >= ANSWERS_MAX:
                    self._answers.clear()
                found = self._answers[question] = self._expected(question)
            return found

    def step_alone_s(self, keys: Sequence[str], size: int) -> float | None:
        """Seconds of a step as measured alone on that many devices; None: not at that size."""
        with self._lock:
            pace = self.knowledge.pace(keys)
            return None if pace is None else dict(pace.points).get(size)

    def step_expected_s(self, keys: Sequence[str], size: int) -> float | None:
        """Seconds of a step alone on that many devices, measured or not; None: of none is known."""
        with self._lock:
            pace = self.knowledge.pace(keys)
            return None if pace is None else pace.curve.seconds(size)

    def observe(self, keys: Sequence[str], outcome: Outcome, *, job: str = "") -> list[Kind]:
        """Take in what an attempt taught; `job`: whose, if its ranges are to be compared.

        Returns the kinds of whose jobs something else is to be expected now.
        """
        with self._lock:
            news = self.knowledge.observe(keys, outcome, name=job)
            if news:
                self._answers.clear()
            return news

    def begin(self, job: str, question: Question, *, now: float, age_s: float) -> None:
        """A job runs from now on, and had run for so long before: its ranges are compared."""
        with self._lock:
            self.knowledge.begin(
                job,
                question.keys,
                question.asked,
                now=now,
                age_s=age_s,
                numbers=question.numbers,
            )

    def pause(self, job: str, now: float) -> None:
        """An attempt of the job is over, and the job is not."""
        with self._lock:
            self.knowledge.pause(job, now=now)

    def forget(self, job: str) -> None:
        """The job is over, and not because its work was done."""
        with self._lock:
            self.knowledge.forget(job)

    def forget_all(self) -> None:
        """The controller began anew: what ran before is not watched any more."""
        with self._lock:
            self.knowledge.forget_all()

    def advance(self, now: float) -> None:
        """It is so late: ranges that jobs have outlived count as missed."""
        with self._lock:
            if self.knowledge.advance(now):
                self._answers.clear()

    def changes(self, at: float) -> list[ProfileRow]:
        """Rows to write, each change once."""
        return [
            ProfileRow(kind, msgspec.json.encode(history), at)
            for kind, history in self.knowledge.changes()
        ]

    def _expected(self, question: Question) -> Expectation:
        try:
            return self._known(question)
        except (ArithmeticError, ValueError):
            # Whatever a command line or a job made it learn: the controller goes on.
            logger.exception("nothing can be expected of jobs of kind %s", question.keys[0])
            return self._judged(question, Knowledge().expect((), question.asked))

    def _known(self, question: Question) -> Expectation:
        learned = self.knowledge.expect(
            question.keys,
            question.asked,
            sizes=question.sizes,
            model=question.model,
            estimate_s=question.estimate_s,
            numbers=question.numbers,
        )
        return self._judged(question, learned)

    def _judged(self, question: Question, learned: Learned) -> Expectation:
        """The answer with what its user says of the job."""
        if question.estimate_s is not None and learned.source not in CLOSER:
            # What its user says of it is closer than what other jobs did.
            learned = learned.by_user(question.estimate_s)
        elif learned.source not in CLOSE and learned.runs < PRIOR_RUNS:
            # The Philly prior weighs more than what was seen here.
            learned = replace(learned, known=False)
        length_s, order_s = _length_s(question, learned), _order_s(question, learned)
        source = _SHOWN.get(learned.source, "nothing") if learned.known else "nothing"
        return Expectation(length_s, order_s, learned.profile, source, learned, learned.known)


def _length_s(question: Question, learned: Learned) -> float:
    """The mean within the time limit, or what its user says."""
    limit_s = inf if question.limit_s is None else question.limit_s
    if learned.source is Source.ITS_USER and question.estimate_s is not None:
        length_s = question.estimate_s
    elif learned.known:
        length_s = _limited(question, learned).mean()
    else:
        length_s = UNKNOWN_S
    return min(length_s, limit_s)


def _order_s(question: Question, learned: Learned) -> float:
    """The length of equal Gittins index: the better order, and no answer to when a job is gone.

    Of a job that takes a minute nine times of ten and else ten hours it says a minute.
    """
    if learned.source is Source.ITS_USER or not learned.known:
        return 0.0
    return equivalent_s(_limited(question, learned))


def _limited(question: Question, learned: Learned) -> Lengths:
    return learned.length if question.limit_s is None else learned.length.cut(question.limit_s)


def _readable(rows: Iterable[ProfileRow]) -> Iterator[tuple[Kind, History]]:
    """What was stored; a row that cannot be read is forgotten: the daemon starts without it."""
    for row in rows:
        try:
            yield row.key, history_of(row.body)
        except msgspec.MsgspecError as error:
            logger.warning("a lesson about %s cannot be read and is forgotten: %s", row.key, error)


def history_of(body: bytes) -> History:
    """A stored row; rows of earlier versions have lengths by size and nothing else."""
    history = msgspec.json.decode(body, type=History)
    if not history.runs and history.by_size:
        for size, lengths in history.by_size.items():
            history.load_lengths(size, lengths)
    return history


def keys_of(
    owner: str,
    model: str,
    command: Sequence[str],
    *,
    folder: str = "",
    env: Mapping[str, str] = NO_VARIABLES,
) -> tuple[Kind, ...]:
    """The keys of profiles that a job learns from, and teaches: the closest first."""
    return _kinds(owner, model, tuple(command), folder, _given(env))


def numbers_of(command: Sequence[str], env: Mapping[str, str] = NO_VARIABLES) -> tuple[float, ...]:
    """The numbers of a command and of the variables its user gave."""
    return _numbers(tuple(command), _given(env))


def _given(env: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """What its user gave, without what every job brings along from the shell it came from."""
    return tuple((name, env[name]) for name in sorted(env) if name not in CARRIED)


@lru_cache(maxsize=4096)  # Members of an array have one command: 20 microseconds each otherwise.
def _kinds(
    owner: str,
    model: str,
    command: tuple[str, ...],
    folder: str,
    env: tuple[tuple[str, str], ...],
) -> tuple[Kind, ...]:
    return by_command(owner, model, command, folder=folder, env=dict(env))


@lru_cache(maxsize=4096)
def _numbers(command: tuple[str, ...], env: tuple[tuple[str, str], ...]) -> tuple[float, ...]:
    return numbers(command, dict(env))
