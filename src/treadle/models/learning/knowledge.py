"""The one learner: outcomes of attempts in, expectations of jobs out.

It is deterministic and reads no clock: the same outcomes in the same order give the same state, so
replaying a journal rebuilds what was learned. Its state is one `History` of plain numbers for each
kind, which the live controller stores as one row each.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from treadle.models.fitted import Point
from treadle.models.learning.confirmed import confirmed_by, no_wider
from treadle.models.learning.curves import FittedCurve
from treadle.models.learning.expectation import Expectation, around
from treadle.models.learning.experts import rescored
from treadle.models.learning.forecasts import Forecasts
from treadle.models.learning.kind_history import History, Needs
from treadle.models.learning.kinds import FAR, Kind, Source, closeness, with_sizes
from treadle.models.learning.known_kinds import KnownKinds
from treadle.models.learning.learned_profile import learned_profile
from treadle.models.learning.open_ranges import OpenRanges, Watched
from treadle.models.learning.outcome import Outcome
from treadle.models.learning.outlived import beyond_runs
from treadle.models.learning.proportion import amounts
from treadle.models.learning.speeds import points as measured_points
from treadle.models.learning.spread import Apart, apart, steps_of
from treadle.models.learning.unlike import Factors, at_home, by_type
from treadle.models.lengths.coverage import PLAIN, Level

KINDS_MAX = 20_000
COMPARED_MIN = 20  # ranges before a kind's own level is used

_NEEDING = (Source.SAME_COMMAND, Source.SAME_NEEDS)
_ALIKE = (*_NEEDING, Source.ALIKE)  # kinds of jobs that differ in numbers or paths at most


class Pace(NamedTuple):
    """Seconds of a step by size, of one kind."""

    points: tuple[Point, ...]  # that were measured
    curve: FittedCurve
    version: int  # above 0; changes with the answers, and no two kinds ever have the same


class Knowledge:
    """What was seen of each kind of jobs."""

    def __init__(self, stored: Iterable[tuple[Kind, History]] = ()) -> None:
        """`stored`: what an earlier one knew, the kind that changed last at the end."""
        self._known = KnownKinds()
        self._changed: dict[Kind, None] = {}
        self._forecasts = Forecasts(self._known)
        self._open = OpenRanges()
        self._paces: dict[Kind, Pace] = {}
        self._remeasured: set[Kind] = set()  # since their pace was asked for
        self._versions = 0
        self.measured = 0  # speeds, so far
        for kind, history in stored:
            if closeness(kind) in FAR:
                history.upgrade()
            self._keep(kind, history)

    def begin(
        self,
        name: str,
        kinds: Sequence[Kind],
        asked: int,
        *,
        now: float,
        age_s: float = 0.0,
        numbers: tuple[float, ...] = (),
    ) -> None:
        """A job begins to run, or goes on after it has run for so long: watch its ranges."""
        self.advance(now)
        if name not in self._open:
            expect = partial(self.expect, tuple(kinds), asked, numbers=numbers)
            experts = self._forecasts.of(kinds, asked, numbers, self._curve(kinds))
            self._open.add(name, Watched(tuple(kinds), expect, experts))
        self._open.begin(name, now=now, age_s=age_s)

    def pause(self, name: str, *, now: float) -> None:
        """The job stopped, and may go on later."""
        self.advance(now)
        self._open.pause(name)

    def forget(self, name: str) -> None:
        """The job will not end as its ranges said, and that is no fault of theirs."""
        self._open.end(name)

    def forget_all(self) -> None:
        """Nothing that runs is watched any more, and forecasts rest on all that is known."""
        self._open = OpenRanges()
        self._forecasts = Forecasts(self._known)

    def advance(self, now: float) -> bool:
        """Count the ranges that jobs have outlived by now; whether there were any.

        One by one, in the order of time: the same whether this is called often or seldom.
        """
        any_missed = False
        while (missed := self._open.next_missed(now)) is not None:
            self._compare(missed.kinds, missed.stage, held=False)
            any_missed = True
        return any_missed

    def observe(self, kinds: Sequence[Kind], outcome: Outcome, *, name: str = "") -> list[Kind]:
        """Take in what happened to a job of these kinds; `name`: as it began.

        Returns the kinds of whose jobs something else is to be expected now.
        """
        sized = with_sizes(kinds, outcome.size)
        self._forecasts.begin(sized)
        if outcome.timed:
            watched = self._open.end(name)
            if outcome.whole:
                closest = at_home(outcome, self._known.get(kinds[0]) or History())
                self._confirm(kinds, closest)
                self._judge(kinds, closest, watched)
        self.measured += outcome.paced
        owner = next((kind for kind in kinds if closeness(kind) is Source.SAME_USER), "")
        return [kind for kind in sized if self._take(kind, outcome, owner)]

    def _take(self, kind: Kind, outcome: Outcome, owner: str) -> bool:
        history = self._known.get(kind) or History()
        far = closeness(kind) in FAR
        seen = outcome if far else at_home(outcome, history)
        if not (history.add_far(seen, owner) if far else history.add(seen)):
            return False
        self._keep(kind, history)
        self._changed[kind] = None
        grown = outcome.timed and self._forecasts.learned(kind)
        if outcome.paced:
            self._forecasts.make_again()
            self._remeasured.add(kind)
        return grown or (not far and outcome.says_more)

    def pace(self, kinds: Sequence[Kind]) -> Pace | None:
        """How fast jobs of the closest of these kinds are that was measured; None: none was."""
        for kind in kinds:
            history = self._known.get(kind)
            if history is not None and steps_of(history):
                return None if closeness(kind) in FAR else self._pace(kind, history)
        return None

    def apart(self, kinds: Sequence[Kind]) -> Apart:
        """How fast such jobs are on more nodes or racks than they need."""
        return apart(self._known.get, kinds)

    def by_type(self, kinds: Sequence[Kind]) -> Factors:
        """How fast such jobs are on each type of device."""
        return by_type(self._known.get, kinds)

    def needs(self, kinds: Sequence[Kind]) -> Needs:
        """What the closest kind was seen to need.

        Start-up and restart times are those of the script. What it uses of a device may be another
        with any other argument, so only jobs that differ in how long they run say it.
        """
        close = Needs()
        for kind in kinds:
            history = self._known.get(kind)
            if closeness(kind) in FAR:
                break
            if history is None or history.needs == Needs():
                continue
            alike = closeness(kind) in _NEEDING or kind.startswith("model ")
            close = close.filled(history.needs, alike=alike)
        return close

    def expect(
        self,
        kinds: Sequence[Kind],
        asked: int,
        *,
        sizes: Sequence[int] = (),
        model: str = "",
        estimate_s: float | None = None,
        numbers: tuple[float, ...] = (),
    ) -> Expectation:
        """What to expect of a job of these kinds, the closest first, at the size it asks for."""
        curve = self._curve(kinds)
        profile = learned_profile(
            self.needs(kinds), self.apart(kinds), curve, asked=asked, sizes=sizes, model=model
        )
        if types := self.by_type(kinds):
            profile = replace(profile, by_type=types)
        works, step_s = self._works(kinds, numbers), self._step_s(kinds, asked)
        length, source, runs = self._forecasts.length((tuple(kinds), asked, numbers), curve)
        if works and step_s is not None and source is not Source.SAME_COMMAND:
            paces, needs = self._paces_at(kinds, asked), self.needs(kinds)
            beside_s = needs.before_steps_s(step_s) + (needs.tail_s or 0.0)
            alike = length if source in _ALIKE else None
            length = around([work * each + beside_s for work in works for each in paces], alike)
            kind, told = next(found for found in self._telling(kinds))
            source, runs = closeness(kind), told.ended
        levels = self._levels(kinds)
        if kinds:
            own = self._known.get(kinds[0]) if closeness(kinds[0]) is Source.SAME_COMMAND else None
            length = beyond_runs(length, own, asked)
            length = no_wider(length, levels[0].share, self._known.get(kinds[0]), asked)
        expected = Expectation(
            source=source,
            runs=runs,
            length=length,
            levels=levels,
            profile=profile,
            work=works[0] if len(works) == 1 else None,
            step_s=step_s,
            known=source is not Source.NOTHING,
        )
        if source is Source.NOTHING and estimate_s is not None:
            return expected.by_user(estimate_s)
        return expected

    def changes(self) -> list[tuple[Kind, History]]:
        """Kinds that changed since this was last asked, as they are now."""
        changed = [(kind, self._known[kind]) for kind in self._changed if kind in self._known]
        self._changed = {}
        return changed

    def history(self, kind: Kind) -> History | None:
        return self._known.get(kind)

    # -- ranges ---------------------------------------------------------------------------------

    def _confirm(self, kinds: Sequence[Kind], outcome: Outcome) -> None:
        """Keep the range of a command that its run was within, before it is learned from."""
        if closeness(kinds[0]) is Source.SAME_COMMAND:
            expected = self.expect(kinds, outcome.size, numbers=outcome.numbers)
            history = self._known.get(kinds[0]) or History()
            history.confirmed = confirmed_by(expected, outcome.size, outcome.ran_s)
            self._keep(kinds[0], history)

    def _judge(self, kinds: Sequence[Kind], outcome: Outcome, watched: Watched | None) -> None:
        """Compare the ranges of a job that has ended, and score the forecasts of its length."""
        seconds = outcome.ran_s
        if watched is None:
            # No range was shown, so none is compared; forecasts are scored as they would be now.
            asked, numbers = outcome.size, outcome.numbers
            experts = self._forecasts.of(kinds, asked, numbers, self._curve(kinds))
        else:
            experts = watched.experts
            for at, span in watched.ranges.items():
                self._compare(kinds, at, held=span.low_s <= seconds <= span.high_s)
        if not experts:
            return
        forecasts = self._forecasts
        everybody, newcomer = forecasts.scores(kinds), forecasts.is_newcomer(kinds)
        for kind in kinds:
            # What newcomers are told is judged by the first jobs of each user, so that a burst of
            # one user does not decide it.
            if closeness(kind) is Source.SAME_USER or (newcomer and closeness(kind) in FAR):
                history = self._known.get(kind) or History()
                history.scores = rescored(history.scores or everybody, experts, seconds)
                self._keep(kind, history)
                self._changed[kind] = None

    def _compare(self, kinds: Sequence[Kind], at: int, *, held: bool) -> None:
        """The first ranges of each user also count for everybody, and for newcomers."""
        newcomer = True
        for kind in kinds:
            history = self._known.get(kind)
            if history is None or closeness(kind) not in FAR:
                continue
            if closeness(kind) is Source.SAME_USER:
                newcomer = not history.levels or history.levels[at].compared < COMPARED_MIN
            elif not newcomer:
                continue
            history.compare(at, held=held)
            self._changed[kind] = None

    def _levels(self, kinds: Sequence[Kind]) -> tuple[Level, ...]:
        """By stage: those of its user, once enough ranges were compared, or of everybody.

        Not those of closer kinds: a change in what a user does is seen sooner in all of it.
        """
        known = [
            history.levels
            for history in (self._known.get(kind) for kind in kinds)
            if history is not None and history.levels
        ]
        if not known:
            return PLAIN
        return tuple(
            next((each[at] for each in known if each[at].compared >= COMPARED_MIN), known[-1][at])
            for at in range(len(PLAIN))
        )

    # -- speed, work, needs ---------------------------------------------------------------------

    def _curve(self, kinds: Sequence[Kind]) -> FittedCurve | None:
        """Seconds of a unit of work by size: of a step, else of the same job as a whole.

        Whole jobs are compared only within one command: `sleep 10` on one device and `sleep 4` on
        two are no speed-up.
        """
        for kind in kinds:
            history = self._known.get(kind)
            if history is None:
                continue
            close = closeness(kind)
            if close in FAR:
                return None
            if steps_of(history):
                return self._pace(kind, history).curve
            if history.by_size and close is Source.SAME_COMMAND:
                return FittedCurve.through(measured_points(history.by_size))
        return None

    def _pace(self, kind: Kind, history: History) -> Pace:
        known = self._paces.get(kind)
        if known is not None and kind not in self._remeasured:
            return known
        self._remeasured.discard(kind)
        points = measured_points(steps_of(history))
        if known is None or known.points != points:
            self._versions += 1
            known = self._paces[kind] = Pace(points, FittedCurve.through(points), self._versions)
        return known

    def _step_s(self, kinds: Sequence[Kind], asked: int) -> float | None:
        pace = self.pace(kinds)
        return None if pace is None else pace.curve.seconds(asked)

    def _paces_at(self, kinds: Sequence[Kind], asked: int) -> list[float]:
        """Seconds of a step that may be; at a size never measured, also as it was at the nearest.

        What a step gains by more devices, or loses by fewer, is a guess there.
        """
        pace = self.pace(kinds)
        if pace is None:
            return []
        measured = dict(pace.points)
        nearest = min(measured, key=lambda size: (abs(size - asked), size))
        curve_s = pace.curve.seconds(asked)
        return [curve_s] if nearest == asked else [curve_s, measured[nearest]]

    def _telling(self, kinds: Sequence[Kind]) -> Iterator[tuple[Kind, History]]:
        """Those of the kinds whose jobs said how many steps they have, the closest first."""
        for kind in kinds:
            history = self._known.get(kind)
            if history is not None and history.totals:
                yield kind, history

    def _works(self, kinds: Sequence[Kind], numbers: tuple[float, ...]) -> list[float]:
        """Steps of the whole job: as they were, or in proportion to one of its numbers.

        Several where it is not known which of the numbers it is; none where nothing says them.
        """
        for kind, history in self._telling(kinds):
            if closeness(kind) not in _ALIKE:
                return []
            return amounts(history.totals, numbers)
        return []

    def _keep(self, kind: Kind, history: History) -> None:
        for forgotten in self._known.keep(kind, history, kinds_max=KINDS_MAX):
            self._paces.pop(forgotten, None)
            self._forecasts.forget(forgotten)
            self._remeasured.discard(forgotten)
