"""What was learned from jobs that ran, for those that are submitted later.

The learner is `treadle.models.learning.knowledge`, which the simulator runs as well. This module is
its adapter: kinds from command lines, stored rows in and out, a job's expected length and profile.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf
from threading import RLock
from typing import NamedTuple

import msgspec

from treadle.core.job import Profile
from treadle.models.learning.commands import NO_VARIABLES
from treadle.models.learning.expectation import Expectation as Learned
from treadle.models.learning.kind_history import History
from treadle.models.learning.kinds import Kind, Likeness, Source, by_command
from treadle.models.learning.knowledge import KINDS_MAX, PRIOR_RUNS, SURE, Knowledge
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
    Source.ALIKE: "jobs like it",
    Source.SAME_SCRIPT: "jobs like it",
    Source.SAME_USER: "jobs of its user",
    Source.EVERYTHING: "jobs on this machine",
    Source.ITS_USER: "its user",
}
CLOSER = (Source.SAME_COMMAND, Source.ALIKE)  # than what its user says of it
CLOSE = (*CLOSER, Source.SAME_SCRIPT)
logger = logging.getLogger("treadle")


@dataclass(frozen=True, slots=True)
class Question:
    """What a job says of itself: the kinds it belongs to, and what its user asked for."""

    likeness: Likeness
    asked: int
    sizes: tuple[int, ...] = ()  # those it may have
    model: str = ""
    estimate_s: float | None = None  # of its user
    limit_s: float | None = None
    device_gib: float | None = None  # of each device's memory, as its user says

    @classmethod
    def of(
        cls,
        program: "Program",
        *,
        asked: int,
        sizes: Sequence[int],
        estimate_s: float | None,
        limit_s: float | None,
        device_gib: float | None = None,
    ) -> "Question":
        sizes = tuple(sizes)
        return cls(program.likeness, asked, sizes, program.model, estimate_s, limit_s, device_gib)


class Program(NamedTuple):
    """What a job runs, whose it is, and where."""

    owner: str
    model: str
    command: tuple[str, ...]
    folder: str = ""
    env: Mapping[str, str] = NO_VARIABLES

    @property
    def likeness(self) -> Likeness:
        # What every job brings along from the shell it came from says nothing.
        given = sorted((name, text) for name, text in self.env.items() if name not in CARRIED)
        return _likeness(self.owner, self.model, self.command, self.folder, tuple(given))


@dataclass(frozen=True, slots=True)
class Expectation:
    """How long a job is expected to take, how it scales, and why we think so."""

    length_s: float  # the mean, for whatever asks when a job will be gone
    order_s: float  # the length by which policies order it; 0: length_s
    profile: Profile
    source: str  # "its own past", "jobs like it" ... "nothing"
    learned: Learned  # the whole answer: the distribution, its doubt, steps
    known: bool  # False: it rests on a prior

    @property
    def shown(self) -> bool:
        """Whether people are shown a length: of other scripts' runs, hardly half would hold."""
        return self.known and self.learned.source in (*CLOSE, Source.ITS_USER)


class Profiles:
    """Profiles by kind of job. Changes since they were last asked for are to be written.

    Questions are also answered beside the event loop, so what reads and what changes take turns.
    """

    def __init__(self, rows: Iterable[ProfileRow] = ()) -> None:
        """`rows`: what was stored, the one that changed last at the end."""
        self.knowledge = Knowledge(_readable(rows))
        self._lock = RLock()
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

    def step_alone_s(self, likeness: Likeness, size: int) -> float | None:
        """Seconds of a step as measured alone on that many devices; None: not at that size."""
        with self._careful(likeness):
            pace = self.knowledge.pace(likeness)
            return None if pace is None or pace.doubt > SURE else dict(pace.points).get(size)
        return None

    def step_expected_s(self, likeness: Likeness, size: int) -> float | None:
        """Seconds of a step alone on that many devices, measured or not; None: of none is known."""
        with self._careful(likeness):
            pace = self.knowledge.pace(likeness)
            return None if pace is None else pace.curve.seconds(size)
        return None

    def observe(self, likeness: Likeness, outcome: Outcome, *, job: str = "") -> list[Kind]:
        """Take in what an attempt taught; `job`: whose, if its ranges are to be compared.

        Returns the kinds of whose jobs something else is to be expected now.
        """
        with self._careful(likeness):
            news = self.knowledge.observe(likeness, outcome, name=job)
            if news:
                self._answers.clear()
            return news
        return []

    def begin(self, job: str, question: Question, *, now: float, age_s: float) -> None:
        """A job runs from now on, and had run for so long before: its ranges are compared."""
        with self._careful(question.likeness):
            self.knowledge.begin(job, question.likeness, question.asked, now=now, age_s=age_s)

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
            ProfileRow(kind, b"" if history is None else msgspec.json.encode(history), at)
            for kind, history in self.knowledge.changes()
        ]

    def scripts(self) -> list[tuple[Kind, History]]:
        """What is known of single scripts, to be read at leisure."""
        with self._lock:
            return [
                (kind, replace(known, costs=replace(known.costs)))
                for kind, known in self.knowledge.scripts()
            ]

    def drop(self, kinds: Iterable[Kind]) -> list[Kind]:
        """Forget these kinds; those that were known."""
        with self._lock:
            self._answers.clear()
            return self.knowledge.drop(kinds)

    @contextmanager
    def _careful(self, likeness: Likeness) -> Iterator[None]:
        """Whatever a command line or a job made it learn: the controller goes on."""
        with self._lock:
            try:
                yield
            except (ArithmeticError, ValueError):
                logger.exception("nothing is known of jobs of kind %s", likeness.kinds[0])

    def _expected(self, question: Question) -> Expectation:
        with self._careful(question.likeness):
            return self._known(question)
        return self._judged(question, Knowledge().expect(Likeness(()), question.asked))

    def _known(self, question: Question) -> Expectation:
        learned = self.knowledge.expect(
            question.likeness,
            question.asked,
            sizes=question.sizes,
            model=question.model,
            estimate_s=question.estimate_s,
            device_gib=question.device_gib,
        )
        return self._judged(question, learned)

    def _judged(self, question: Question, learned: Learned) -> Expectation:
        """The answer with what its user says of the job."""
        doubtful = learned.source not in CLOSER or learned.doubted
        if question.estimate_s is not None and doubtful:
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
        if not row.body:
            continue  # Forgotten.
        try:
            yield row.key, msgspec.json.decode(row.body, type=History)
        except msgspec.MsgspecError as error:
            logger.warning("a lesson about %s cannot be read and is forgotten: %s", row.key, error)


@lru_cache(maxsize=4096)  # Members of an array have one command: 50 microseconds each otherwise.
def _likeness(
    owner: str, model: str, command: tuple[str, ...], folder: str, env: tuple[tuple[str, str], ...]
) -> Likeness:
    return by_command(owner, model, command, folder=folder, env=dict(env))
