"""The one learner: outcomes of attempts in, expectations of jobs out.

It is deterministic and reads no clock: the same outcomes in the same order give the same state, so
replaying a journal rebuilds what was learned. Its state is one `History` of plain numbers for each
kind, which the live controller stores as one row each.
"""

from collections.abc import Iterable, Sequence

from treadle.core.job import Profile
from treadle.models.learning.curves import SERIAL, Curve, FittedCurve
from treadle.models.learning.expectation import Expectation
from treadle.models.learning.kind_history import History, Needs, Run
from treadle.models.learning.kinds import Kind, Source, closeness
from treadle.models.learning.outcome import Outcome
from treadle.models.learning.proportion import proportional, stated
from treadle.models.lengths.coverage import AGES_S, Correction, Made
from treadle.models.lengths.distribution import Lengths, mixture
from treadle.models.lengths.prior import philly
from treadle.models.lengths.survival import Seen, kaplan_meier

KINDS_MAX = 20_000
HALF_LIFE = 32.0  # jobs of a kind after which an older one counts half
TAIL_DOUBT = 0.25  # that the next is longer than all: as likely as this over the runs seen
COMPARED_MIN = 5  # outcomes before a kind's own correction is used
PRIOR_RUNS = 10  # from so many jobs on, what others saw elsewhere is forgotten

# How many runs a kind needs until it counts as much as all farther kinds together.
_DOUBT = {
    Source.SAME_COMMAND: 0.25,
    Source.SAME_NEEDS: 2.0,
    Source.ALIKE: 2.0,
    Source.SAME_SCRIPT: 4.0,
    Source.SAME_USER: 8.0,
    Source.EVERYTHING: 1.0,
}
_NEEDING = (Source.SAME_COMMAND, Source.SAME_NEEDS)
_OTHER_NUMBERS = (1 / 3, 1.0, 1.0, 3.0)  # factors on lengths, each as likely
_FAR = (Source.SAME_USER, Source.EVERYTHING)


class Knowledge:
    """What was seen of each kind of jobs."""

    def __init__(self, stored: Iterable[tuple[Kind, History]] = ()) -> None:
        """`stored`: what an earlier one knew, the kind that changed last at the end."""
        self._known: dict[Kind, History] = {}  # the kind that changed last stands last
        for kind, history in stored:
            self._keep(kind, history)
        self._changed: dict[Kind, None] = {}

    def observe(self, kinds: Sequence[Kind], outcome: Outcome) -> None:
        """Take in what happened to a job of these kinds."""
        if outcome.whole and outcome.timed:
            self._compare(kinds, outcome)
        for kind in kinds:
            history = self._known.get(kind) or History()
            if history.add(outcome):
                self._keep(kind, history)
                self._changed[kind] = None

    def overran(self, kinds: Sequence[Kind], made: Made, age_s: float) -> bool:
        """Whether a job that still runs at this age is beyond the range it would be given now.

        If it is, that counts as a miss now. To wait for the end would be to hear of the short jobs
        first, and to make ranges too narrow until the long ones end.
        """
        if age_s <= self._corrections(kinds)[made.stage].applied(made.base).high_s:
            return False
        self._correct(kinds, (made,), age_s)
        return True

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
        profile = self._profile(kinds, asked, sizes=sizes, model=model, curve=curve)
        work, step_s = self._work(kinds, numbers), self._step_s(kinds, asked)
        length, source, runs = self._length(kinds, asked, numbers, curve)
        if source is Source.NOTHING and estimate_s is not None:
            length, source = Lengths.exactly(estimate_s), Source.ITS_USER
        if work is not None and step_s is not None and source is not Source.SAME_COMMAND:
            length = _around(work * step_s, length)
        return Expectation(
            source=source,
            runs=runs,
            length=length,
            corrections=self._corrections(kinds),
            profile=profile,
            work=work,
            step_s=step_s,
            known=source is not Source.NOTHING,
        )

    def changes(self) -> list[tuple[Kind, History]]:
        """Kinds that changed since this was last asked, as they are now."""
        changed = [(kind, self._known[kind]) for kind in self._changed if kind in self._known]
        self._changed = {}
        return changed

    def history(self, kind: Kind) -> History | None:
        return self._known.get(kind)

    # -- lengths --------------------------------------------------------------------------------

    def _length(
        self,
        kinds: Sequence[Kind],
        asked: int,
        numbers: tuple[float, ...],
        curve: Curve | None,
    ) -> tuple[Lengths, Source, int]:
        """The mixture of all kinds, closer ones first; the closest that was seen, and its runs."""
        parts: list[tuple[Lengths, float]] = []
        left, source, runs, most = 1.0, Source.NOTHING, 0, 0
        for kind in kinds:
            history = self._known.get(kind)
            if history is None or not history.ended:
                continue
            seen = _seen(history, asked, numbers, curve)
            close = closeness(kind)
            lengths = kaplan_meier(seen, doubt=TAIL_DOUBT)
            if lengths is None:
                continue
            if source is Source.NOTHING:
                source, runs = close, history.ended
            most = max(most, history.ended)
            share = left * history.ended / (history.ended + _DOUBT[close])
            parts.append((lengths, share))
            left -= share
            if left < 0.01:
                break
        if source is Source.NOTHING or (most < PRIOR_RUNS and source in _FAR):
            parts.append((philly(asked), left))
        elif parts:
            lengths, share = parts[-1]
            parts[-1] = (lengths, share + left)
        return (parts[0][0] if len(parts) == 1 else mixture(parts)), source, runs

    def _compare(self, kinds: Sequence[Kind], outcome: Outcome) -> None:
        """Correct the ranges of these kinds by how well the ranges of this job held."""
        ranges = outcome.expected
        if ranges is None:
            expected = self.expect(kinds, outcome.size, numbers=outcome.numbers)
            if not expected.known:
                return
            ages = (0.0, *AGES_S)
            ranges = tuple(expected.made(age_s) for age_s in ages if age_s < outcome.ran_s)
        self._correct(kinds, ranges, outcome.ran_s)

    def _correct(self, kinds: Sequence[Kind], ranges: Sequence[Made], seconds: float) -> None:
        for kind in kinds:
            history = self._known.get(kind)
            if history is not None and ranges:
                history.compare(ranges, seconds)
                self._changed[kind] = None

    def _corrections(self, kinds: Sequence[Kind]) -> tuple[Correction, ...]:
        """By stage, those of the closest kind of which enough ranges were compared."""
        known = [
            history.corrections
            for history in (self._known.get(kind) for kind in kinds)
            if history is not None and history.corrections
        ]
        return tuple(
            next((each[at] for each in known if each[at].compared >= COMPARED_MIN), Correction())
            for at in range(len(AGES_S) + 1)
        )

    # -- speed, work, needs ---------------------------------------------------------------------

    def _curve(self, kinds: Sequence[Kind]) -> Curve | None:
        """Seconds of a unit of work by size: of a step, else of the same job as a whole.

        Whole jobs are compared only within one command: `sleep 10` on one device and `sleep 4` on
        two are no speed-up.
        """
        for kind in kinds:
            history = self._known.get(kind)
            if history is None:
                continue
            close = closeness(kind)
            if close in _FAR:
                return None
            if history.steps:
                return FittedCurve.through(_points(history.steps))
            if history.by_size and close is Source.SAME_COMMAND:
                return FittedCurve.through(_points(history.by_size))
        return None

    def _step_s(self, kinds: Sequence[Kind], asked: int) -> float | None:
        for kind in kinds:
            history = self._known.get(kind)
            if history is not None and history.steps:
                if closeness(kind) in _FAR:
                    return None
                return FittedCurve.through(_points(history.steps)).seconds(asked, asked)
        return None

    def _work(self, kinds: Sequence[Kind], numbers: tuple[float, ...]) -> float | None:
        """Steps of the whole job: as they were, or in proportion to one of its numbers."""
        for kind in kinds:
            history = self._known.get(kind)
            if history is None or not history.totals:
                continue
            if closeness(kind) not in {*_NEEDING, Source.ALIKE}:
                return None
            rows = [(total, its) for total, its in history.totals]
            position = stated(rows, numbers)
            if position is None:
                position = proportional(rows, numbers)
            if position is None:
                return _median([total for total, _ in rows])
            ratios = [total / its[position] for total, its in rows if len(its) == len(numbers)]
            return _median(ratios) * numbers[position]
        return None

    def _profile(
        self,
        kinds: Sequence[Kind],
        asked: int,
        *,
        sizes: Sequence[int],
        model: str,
        curve: Curve | None,
    ) -> Profile:
        needs = self._needs(kinds)
        carried = () if curve is None else curve.carried((asked, *sizes))
        return Profile(
            size=asked,
            serial=SERIAL,
            model=model,
            curve=carried,
            measured=() if curve is None else curve.measured,
            busy=needs.busy,
            memory_busy=needs.memory_busy,
            cores=needs.cores,
            memory_gib=needs.memory_gib or 0.0,
            restart_s=needs.restart_s or 0.0,
        )

    def _needs(self, kinds: Sequence[Kind]) -> Needs:
        """What the closest kind was seen to need.

        Start-up and restart times are those of the script. What it uses of a device may be another
        with any other argument, so only jobs that differ in how long they run say it.
        """
        close = Needs()
        for kind in kinds:
            history = self._known.get(kind)
            if closeness(kind) in _FAR:
                break
            if history is None or history.needs == Needs():
                continue
            alike = closeness(kind) in _NEEDING or kind.startswith("model ")
            close = close.filled(history.needs, alike=alike)
        return close

    def _keep(self, kind: Kind, history: History) -> None:
        self._known.pop(kind, None)
        self._known[kind] = history
        while len(self._known) > KINDS_MAX:
            del self._known[next(iter(self._known))]


def _seen(
    history: History, asked: int, numbers: tuple[float, ...], curve: Curve | None
) -> list[Seen]:
    """The lengths of a kind, at the asked size, in proportion to a number where that tells."""
    rows = [(run.seconds, run.numbers) for run in history.runs if run.whole]
    position = proportional(rows, numbers)
    age, found = 0, []
    for run in reversed(history.runs):
        factors = _factors(run, asked, numbers, curve, position)
        weight = 0.5 ** (age / HALF_LIFE) / len(factors)
        found += [Seen(run.seconds * factor, run.whole, weight) for factor in factors]
        age += run.whole  # Only ends make others old, so that what was cut off shortens nothing.
    return found


def _factors(
    run: Run, asked: int, numbers: tuple[float, ...], curve: Curve | None, position: int | None
) -> tuple[float, ...]:
    """How long a job may take where this run took 1: several where that is not known."""
    factors: tuple[float, ...] = (1.0,)
    if curve is not None and run.size != asked:
        faster = curve.seconds(asked, asked) / curve.seconds(run.size, run.size)
        # At a size that was never measured, it may as well gain nothing.
        factors = (faster,) if asked in curve.measured else (1.0, faster)
    if len(run.numbers) != len(numbers) or run.numbers == numbers:
        return factors
    if position is None:
        # Another number, and nothing shows yet what it does.
        return tuple(factor * other for factor in factors for other in _OTHER_NUMBERS)
    if run.numbers[position] > 0:
        return tuple(factor * numbers[position] / run.numbers[position] for factor in factors)
    return factors


def _points(by_size: dict[int, list[float]]) -> tuple[tuple[int, float], ...]:
    return tuple((size, _median(by_size[size])) for size in sorted(by_size))


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return 0.5 * (ordered[middle - 1] + ordered[middle])


def _around(seconds: float, lengths: Lengths) -> Lengths:
    """Steps times seconds a step, with the doubt of both, and some of what else is known."""
    near = [(seconds * factor, mass) for factor, mass in ((0.8, 0.2), (1.0, 0.6), (1.25, 0.2))]
    return mixture(((Lengths.of(near), 0.9), (lengths, 0.1)))
