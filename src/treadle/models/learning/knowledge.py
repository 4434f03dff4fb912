"""The one learner: outcomes of attempts in, expectations of jobs out.

It is deterministic and reads no clock: the same outcomes in the same order give the same state, so
replaying a journal rebuilds what was learned. Its state is one `History` of plain numbers for each
kind, which the live controller stores as one row each.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import exp
from typing import NamedTuple

from treadle.models.learning.curves import FittedCurve
from treadle.models.learning.expectation import Expectation, around
from treadle.models.learning.experts import WEIGHT_MIN, Expert, narrowed, rescored, weights
from treadle.models.learning.kept_experts import KeptExperts
from treadle.models.learning.kind_experts import Group, as_sure_as_farther
from treadle.models.learning.kind_history import History
from treadle.models.learning.kinds import (
    FAR,
    Kind,
    Likeness,
    Source,
    closeness,
    of_commands,
    with_sizes,
)
from treadle.models.learning.known_kinds import KnownKinds
from treadle.models.learning.known_needs import KnownNeeds, Pace
from treadle.models.learning.learned_profile import learned_profile
from treadle.models.learning.open_ranges import OpenRanges, Watched
from treadle.models.learning.outcome import Outcome
from treadle.models.learning.outlived import beyond_runs
from treadle.models.learning.unlike import at_home
from treadle.models.lengths.coverage import PLAIN, Level
from treadle.models.lengths.distribution import Lengths, mixture
from treadle.models.lengths.prior import philly

KINDS_MAX = 20_000
COMPARED_MIN = 20  # ranges before a kind's own level is used
PRIOR_RUNS = 10  # from so many jobs on, what others saw elsewhere is forgotten
MIXED_POINTS = 256  # of what is expected of a job
LENGTHS_MAX = 1024  # kept until the next is learned
SHARE_MIN = 0.02  # of any forecast, before scores
NEWCOMER_RUNS = 10  # jobs of a user, before all of everybody's jobs count as they came
NEWCOMERS_SHARE = 0.5  # how far the scores of everybody count for a user of whom none are known

# How many runs a kind needs until it counts as much as all farther kinds together.
_DOUBT = {
    Source.SAME_COMMAND: 0.25,
    Source.ALIKE: 2.0,
    Source.SAME_SCRIPT: 4.0,
    Source.SAME_USER: 8.0,
    Source.EVERYTHING: 1.0,
}
OWN_RUNS_MIN, OWN_SHARE_MIN = 3, 0.5
# How labels of such forecasts begin.
_FAR = tuple(each.value for each in FAR)
_CLOSE = (Source.SAME_COMMAND, Source.ALIKE)
_OWN, _OTHERS = Source.SAME_COMMAND.value, Source.EVERYTHING.value
_FARTHER = (Source.SAME_SCRIPT, *FAR)  # jobs of other scripts
SURE = 0.1  # a speed that may be off by more, in powers of e, is no single number

_Asked = tuple[Likeness, int]  # and a size


class _Known(NamedTuple):
    """What lengths say of a job, until kinds have grown."""

    length: Lengths
    groups: list[Group]  # of forecasts, the closest first
    closest: Group

    @property
    def experts(self) -> list[Expert]:
        return [expert for group in self.groups for expert in group.experts]


class Knowledge:
    """What was seen of each kind of jobs."""

    def __init__(self, stored: Iterable[tuple[Kind, History]] = ()) -> None:
        """`stored`: what an earlier one knew, the kind that changed last at the end."""
        self._known = KnownKinds()
        self._changed: dict[Kind, None] = {}
        self._experts = KeptExperts(self._known)
        self._lengths: dict[_Asked, _Known] = {}  # until kinds have grown
        self._open = OpenRanges()
        self.needs = KnownNeeds(self._known)
        self.measured = 0  # speeds, so far
        for kind, history in stored:
            self._keep(kind, history)

    def begin(
        self, name: str, likeness: Likeness, asked: int, *, now: float, age_s: float = 0.0
    ) -> None:
        """A job begins to run, or goes on after it has run for so long: watch its ranges."""
        self.advance(now)
        if name not in self._open:
            experts = tuple(self._length((likeness, asked)).experts)
            self._open.add(name, Watched(likeness, partial(self.expect, likeness, asked), experts))
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
        self._experts = KeptExperts(self._known)
        self._lengths.clear()

    def advance(self, now: float) -> bool:
        """Count the ranges that jobs have outlived by now; whether there were any.

        One by one, in the order of time: the same whether this is called often or seldom.
        """
        any_missed = False
        while (missed := self._open.next_missed(now)) is not None:
            self._compare(missed.likeness.kinds, missed.stage, held=False)
            any_missed = True
        return any_missed

    def observe(self, likeness: Likeness, outcome: Outcome, *, name: str = "") -> list[Kind]:
        """Take in what happened to such a job; `name`: as it began.

        Returns the kinds of whose jobs something else is to be expected now.
        """
        kinds = likeness.kinds
        sized = with_sizes(kinds, outcome.size)
        for kind in sized:
            self._experts.evidence(kind)  # as it is before this is learned
        if outcome.timed:
            watched = self._open.end(name)
            if outcome.whole:
                self._judge(likeness, self._at_home(likeness, kinds[0], outcome), watched)
        self.measured += outcome.paced
        return [kind for kind in sized if self._take(kind, likeness, outcome)]

    def _at_home(self, likeness: Likeness, kind: Kind, outcome: Outcome) -> Outcome:
        if not (outcome.timed and outcome.device_type):
            return outcome
        return at_home(outcome, self.needs.measured(kind, likeness.arguments))

    def _take(self, kind: Kind, likeness: Likeness, outcome: Outcome) -> bool:
        history = self._known.get(kind) or History()
        far = closeness(kind) in FAR
        if far:
            owner = next(
                (each for each in likeness.kinds if closeness(each) is Source.SAME_USER), ""
            )
            taken = history.add_far(outcome, owner)
        else:
            history.name = likeness.name
            taken = history.add(self._at_home(likeness, kind, outcome), likeness.arguments)
        if not taken:
            return False
        self._keep(kind, history)
        self._changed[kind] = None
        grown = outcome.timed and self._experts.learned(kind)
        if grown or outcome.paced:
            self._lengths.clear()
        if not far and outcome.says_more:
            self.needs.changed(kind)
        return grown or (not far and outcome.says_more)

    def pace(self, likeness: Likeness) -> Pace | None:
        """How fast such jobs are; None: none was measured."""
        return self.needs.pace(likeness)

    def expect(
        self,
        likeness: Likeness,
        asked: int,
        *,
        sizes: Sequence[int] = (),
        model: str = "",
        estimate_s: float | None = None,
        device_gib: float | None = None,
    ) -> Expectation:
        """What to expect of such a job at the size it asks for.

        device_gib: what it needs of each device's memory, as its user says.
        """
        needs, curve = self.needs, self._curve(likeness)
        costs = needs.costs(likeness)
        use = needs.use(likeness)
        if device_gib is not None:  # Runs with other arguments know no better than its user.
            use = use._replace(memory_gib=use.reached_gib)
        profile = learned_profile(
            use,
            costs,
            needs.apart(likeness),
            curve,
            asked=asked,
            sizes=sizes,
            model=model,
            by_type=needs.by_type(likeness),
        )
        lengths = self._length((likeness, asked))
        length, source = lengths.length, lengths.closest.source
        runs, doubted = lengths.closest.ended, lengths.closest.doubted
        steps, paces = needs.steps(likeness), self._paces_at(likeness, asked)
        if paces and steps.counts and self._by_steps(likeness, lengths.closest):
            beside_s = costs.before_steps_s(paces[0]) + (costs.tail_s or 0.0)
            # Some take another time; as long as their like, if that is hardly in doubt.
            alike = length if source is Source.ALIKE and not doubted else None
            found = [count * step_s + beside_s for count in steps.counts for step_s in paces]
            length, source, runs, doubted = around(found, alike), steps.source, steps.runs, ""
        if likeness.kinds:
            closest = self._known.get(likeness.kinds[0])
            length = beyond_runs(length, closest, likeness.arguments, asked)
        expected = Expectation(
            source=source,
            runs=runs,
            length=length,
            levels=self._levels(likeness.kinds),
            profile=profile,
            work=steps.counts[0] if len(steps.counts) == 1 else None,
            step_s=paces[0] if paces else None,
            known=source is not Source.NOTHING,
            doubted=doubted,
        )
        if source is Source.NOTHING and estimate_s is not None:
            return expected.by_user(estimate_s)
        return expected

    def _by_steps(self, likeness: Likeness, closest: Group) -> bool:
        """Whether steps and their speed say more of a length than lengths do."""
        pace = self.pace(likeness)
        if pace is None or closest.source in (Source.NOTHING, *_FARTHER):
            return pace is not None
        return closest.source is Source.ALIKE and pace.doubt <= closest.doubt

    def changes(self) -> list[tuple[Kind, History | None]]:
        """Kinds that changed since this was last asked, as they are now; None: forgotten."""
        changed = [(kind, self._known.get(kind)) for kind in self._changed]
        self._changed = {}
        return changed

    def scripts(self) -> Iterator[tuple[Kind, History]]:
        """What is known of single scripts, of each owner the one that changed last first."""
        return ((kind, known) for kind, known in self._known.newest() if of_commands(kind))

    def drop(self, kinds: Iterable[Kind]) -> list[Kind]:
        """Forget these kinds; those that were known."""
        dropped = [kind for kind in kinds if self._known.drop(kind)]
        for kind in dropped:
            self._changed[kind] = None
            self.needs.forget(kind)
            self._experts.forget(kind)
        self._lengths.clear()
        return dropped

    def history(self, kind: Kind) -> History | None:
        return self._known.get(kind)

    # -- lengths --------------------------------------------------------------------------------

    def _length(self, question: _Asked) -> _Known:
        """The same as `_mixed`, once until enough is learned of lengths, or a speed."""
        if (known := self._lengths.get(question)) is None:
            if len(self._lengths) >= LENGTHS_MAX:
                self._lengths.clear()
            known = self._lengths[question] = self._mixed(*question)
        return known

    def _mixed(self, likeness: Likeness, asked: int) -> _Known:
        """The mixture of all forecasts."""
        groups = self._groups(likeness, asked)
        experts = [expert for group in groups for expert in group.experts]
        parts = [
            (expert.lengths, weight)
            for expert, weight in zip(experts, self._weights(likeness, groups), strict=True)
            if weight >= WEIGHT_MIN
        ]
        closest = groups[0] if groups else Group(Source.NOTHING, 0, [])
        most = max((group.ended for group in groups), default=0)
        if closest.source is Source.NOTHING:
            parts = [(philly(asked), 1.0)]
        elif most < PRIOR_RUNS and closest.source in _FARTHER:
            # So few jobs that what others saw elsewhere still counts: another word of the command
            # may make a job any number of times as long.
            parts.append((philly(asked), 1.0 / (1.0 + most)))
        if not parts:  # All that is remembered was cut off.
            parts = [(philly(asked), 1.0)]
        mixed = parts[0][0] if len(parts) == 1 else mixture(parts)
        return _Known(mixed.thinned(MIXED_POINTS), groups, closest)

    def _groups(self, likeness: Likeness, asked: int) -> list[Group]:
        """What each kind says by itself, with its share before scores: closer ones first."""
        newcomer = self._is_newcomer(likeness.kinds)
        curve = self._curve(likeness)
        found = self._experts.groups(likeness, asked, curve, newcomer=newcomer)
        near = as_sure_as_farther([each for each in found if each.source is not Source.EVERYTHING])
        groups = [*near, *(each for each in found if each.source is Source.EVERYTHING)]
        left = 1.0
        shared: list[Group] = []
        for group in groups:
            share = left * group.ended / (group.ended + _DOUBT[group.source])
            left -= share
            each = share / max(1, len(group.experts)) + SHARE_MIN
            experts = [one._replace(share=each) for one in group.experts]
            shared.append(group._replace(experts=experts))
        return shared

    def _curve(self, likeness: Likeness) -> FittedCurve | None:
        """Seconds of a unit of work by size: of a step, else of the same command as a whole."""
        pace = self.pace(likeness)
        return self._experts.curve(likeness) if pace is None else pace.curve

    def _is_newcomer(self, kinds: Sequence[Kind]) -> bool:
        """Whether few jobs of the user have ended, so that others' say what to expect."""
        return not self._known.have_ended(kinds, Source.SAME_USER, NEWCOMER_RUNS)

    def _weights(self, likeness: Likeness, groups: Sequence[Group]) -> list[float]:
        """By scores; but the job's own command, once it ran a few times, counts for half at least.

        The rest is its user's. Otherwise others could change what is expected of it: while all jobs
        are alike, the forecast of everything scores as well as its own, and their next ones differ.
        """
        experts = [expert for group in groups for expert in group.experts]
        if not experts:
            return []
        found = weights(experts, self._scores(likeness.kinds))
        if groups[0].source not in _CLOSE or groups[0].ended < OWN_RUNS_MIN:
            return found
        if groups[0].source is Source.ALIKE:
            # The others know nothing of its arguments.
            return narrowed(found, [not expert.label.startswith(_FAR) for expert in experts])
        found = narrowed(found, [not expert.label.startswith(_OTHERS) for expert in experts])
        own = [expert.label.startswith(_OWN) for expert in experts]
        share = sum(weight for weight, mine in zip(found, own, strict=True) if mine)
        if share >= OWN_SHARE_MIN:
            return found
        prior = sum(expert.share for expert, mine in zip(experts, own, strict=True) if mine)
        return [
            OWN_SHARE_MIN * expert.share / prior
            if mine
            else weight * (1.0 - OWN_SHARE_MIN) / (1.0 - share)
            for expert, weight, mine in zip(experts, found, own, strict=True)
        ]

    def _scores(self, kinds: Sequence[Kind]) -> Mapping[str, float]:
        """Of the user's jobs; of everybody's, with more doubt, if none of the user's are known."""
        for kind in kinds:
            scores = self._experts.evidence(kind).scores
            if scores and closeness(kind) in FAR:
                if closeness(kind) is Source.SAME_USER:
                    return scores
                return {key: NEWCOMERS_SHARE * one for key, one in scores.items()}
        return {}

    def _judge(self, likeness: Likeness, outcome: Outcome, watched: Watched | None) -> None:
        """Compare the ranges of a job that has ended, and score the forecasts of its length."""
        kinds, seconds = likeness.kinds, outcome.ran_s
        experts: Sequence[Expert]
        if watched is None:
            # No range was shown, so none is compared; forecasts are scored as they would be now.
            experts = self._length((likeness, outcome.size)).experts
        else:
            experts = watched.experts
            for at, span in watched.ranges.items():
                self._compare(kinds, at, held=span.low_s <= seconds <= span.high_s)
        if not experts:
            return
        everybody, newcomer = self._scores(kinds), self._is_newcomer(kinds)
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

    def _paces_at(self, likeness: Likeness, asked: int) -> list[float]:
        """Seconds of a step that may be, the likeliest first.

        At a size never measured, also as it was at the nearest: what a step gains by more devices,
        or loses by fewer, is a guess there. Of runs with other arguments, also slower and faster.
        """
        pace = self.pace(likeness)
        if pace is None:
            return []
        measured = dict(pace.points)
        nearest = min(measured, key=lambda size: (abs(size - asked), size))
        curve_s = pace.curve.seconds(asked)
        found = [curve_s] if nearest == asked else [curve_s, measured[nearest]]
        if pace.doubt > SURE:
            found = [each * exp(off) for off in (0.0, -pace.doubt, pace.doubt) for each in found]
        return found

    def _keep(self, kind: Kind, history: History) -> None:
        for forgotten in self._known.keep(kind, history, kinds_max=KINDS_MAX):
            self._changed.pop(forgotten, None)
            self.needs.forget(forgotten)
            self._experts.forget(forgotten)
