"""How long jobs of some kinds take: the forecasts of each kind, and their mixture.

What a forecast rests on is in kept_experts.py, how forecasts are weighed in experts.py.
"""

from collections.abc import Mapping, Sequence

from treadle.models.fitted import Point
from treadle.models.learning.curves import FittedCurve
from treadle.models.learning.experts import WEIGHT_MIN, Expert, narrowed, weights
from treadle.models.learning.kept_experts import KeptExperts
from treadle.models.learning.kind_experts import as_sure_as_farther
from treadle.models.learning.kinds import FAR, Kind, Source, closeness, with_sizes
from treadle.models.learning.known_kinds import KnownKinds
from treadle.models.lengths.distribution import Lengths, mixture
from treadle.models.lengths.prior import philly

PRIOR_RUNS = 10  # from so many jobs on, what others saw elsewhere is forgotten
MIXED_POINTS = 256  # of what is expected of a job
LENGTHS_MAX = 1024  # kept until the next is learned
SHARE_MIN = 0.02  # of any forecast, before scores
NEWCOMER_RUNS = 10  # jobs of a user, before all of everybody's jobs count as they came
NEWCOMERS_SHARE = 0.5  # how far the scores of everybody count for a user of whom none are known

# How many runs a kind needs until it counts as much as all farther kinds together.
_DOUBT = {
    Source.SAME_COMMAND: 0.25,
    Source.SAME_NEEDS: 2.0,
    Source.ALIKE: 2.0,
    Source.SAME_SCRIPT: 4.0,
    Source.SAME_USER: 8.0,
    Source.EVERYTHING: 1.0,
}
OWN_RUNS_MIN, OWN_SHARE_MIN = 3, 0.5
# How labels of such forecasts begin.
_OWN, _OTHERS = Source.SAME_COMMAND.value, Source.EVERYTHING.value
_OTHER_WORDS = (Source.SAME_SCRIPT, *FAR)  # kinds of jobs that differ in more than numbers or paths

Asked = tuple[tuple[Kind, ...], int, tuple[float, ...]]  # kinds, size, numbers
# These, whether their user is new, and the speeds that lengths are converted by.
_RestsOn = tuple[tuple[Kind, ...], int, tuple[float, ...], bool, tuple[Point, ...]]


class Forecasts:
    """What was seen of lengths says of the next job's; each answer is kept until more is seen."""

    def __init__(self, known: KnownKinds) -> None:
        self._known = known
        self._experts = KeptExperts(known)
        self._lengths: dict[Asked, tuple[Lengths, Source, int]] = {}
        self._made: dict[_RestsOn, tuple[Expert, ...]] = {}

    def begin(self, kinds: Sequence[Kind]) -> None:
        """A job of these kinds is about to be learned from."""
        for kind in kinds:
            self._experts.evidence(kind)

    def learned(self, kind: Kind) -> bool:
        """A length was learned of this kind; whether forecasts are other ones now."""
        grown = self._experts.learned(kind)
        if grown:
            self.make_again()
        return grown

    def make_again(self) -> None:
        self._lengths.clear()
        self._made.clear()

    def forget(self, kind: Kind) -> None:
        self._experts.forget(kind)
        self.make_again()

    def length(self, question: Asked, curve: FittedCurve | None) -> tuple[Lengths, Source, int]:
        """The mixture of all forecasts; the closest kind that was seen, and its runs."""
        if (known := self._lengths.get(question)) is None:
            if len(self._lengths) >= LENGTHS_MAX:
                self._lengths.clear()
            known = self._lengths[question] = self._mixed(question, curve)
        return known

    def _mixed(self, question: Asked, curve: FittedCurve | None) -> tuple[Lengths, Source, int]:
        kinds, asked, numbers = question
        source, runs, most = self._closest(kinds)
        forecasts = self.of(kinds, asked, numbers, curve)
        parts = [
            (expert.lengths, weight)
            for expert, weight in zip(forecasts, self._weights(kinds, forecasts), strict=True)
            if weight >= WEIGHT_MIN
        ]
        if source is Source.NOTHING:
            parts = [(philly(asked), 1.0)]
        elif most < PRIOR_RUNS and source in _OTHER_WORDS:
            # So few jobs that what others saw elsewhere still counts: another word of the command
            # may make a job any number of times as long.
            parts.append((philly(asked), 1.0 / (1.0 + most)))
        if not parts:  # All that is remembered was cut off.
            parts = [(philly(asked), 1.0)]
        mixed = parts[0][0] if len(parts) == 1 else mixture(parts)
        return mixed.thinned(MIXED_POINTS), source, runs

    def _closest(self, kinds: Sequence[Kind]) -> tuple[Source, int, int]:
        """The closest kind of which jobs have ended, how many, and the most of any kind."""
        source, runs, most = Source.NOTHING, 0, 0
        for kind in kinds:
            if ended := self._experts.evidence(kind).ended:
                if source is Source.NOTHING:
                    source, runs = closeness(kind), ended
                most = max(most, ended)
        return source, runs, most

    def of(
        self,
        kinds: Sequence[Kind],
        asked: int,
        numbers: tuple[float, ...],
        curve: FittedCurve | None,
    ) -> tuple[Expert, ...]:
        """What each kind says by itself, with its share before scores: closer ones first."""
        newcomer = self.is_newcomer(kinds)
        points = () if curve is None else curve.points
        rests_on = tuple(kinds), asked, numbers, newcomer, points
        if (made := self._made.get(rests_on)) is None:
            if len(self._made) >= LENGTHS_MAX:
                self._made.clear()
            made = self._made[rests_on] = self._forecasts(kinds, asked, numbers, newcomer, curve)
        return made

    def _forecasts(
        self,
        kinds: Sequence[Kind],
        asked: int,
        numbers: tuple[float, ...],
        newcomer: bool,
        curve: FittedCurve | None,
    ) -> tuple[Expert, ...]:
        asked_of = with_sizes(kinds, asked)
        by_kind = {
            kind: self._experts.of_all(kind, even=newcomer)
            if closeness(kind) is Source.EVERYTHING
            else self._experts.of(kind, asked, numbers, curve)
            for kind in asked_of
        }
        by_kind |= as_sure_as_farther(
            {
                kind: each
                for kind, each in by_kind.items()
                if each and closeness(kind) is not Source.EVERYTHING
            }
        )
        found: list[Expert] = []
        left = 1.0
        for kind, experts in by_kind.items():
            if experts:
                ended = self._experts.evidence(kind).ended
                share = left * ended / (ended + _DOUBT[closeness(kind)])
                left -= share
                found += [one._replace(share=share / len(experts) + SHARE_MIN) for one in experts]
        return tuple(found)

    def is_newcomer(self, kinds: Sequence[Kind]) -> bool:
        """Whether few jobs of the user have ended, so that others' say what to expect."""
        return not self._known.have_ended(kinds, Source.SAME_USER, NEWCOMER_RUNS)

    def _weights(self, kinds: Sequence[Kind], experts: Sequence[Expert]) -> list[float]:
        """By scores; but the job's own command, once it ran a few times, counts for half at least.

        The rest is its user's. Otherwise others could change what is expected of it: while all jobs
        are alike, the forecast of everything scores as well as its own, and their next ones differ.
        """
        if not experts:
            return []
        found = weights(experts, self.scores(kinds))
        if not self._known.have_ended(kinds, Source.SAME_COMMAND, OWN_RUNS_MIN):
            return found
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

    def scores(self, kinds: Sequence[Kind]) -> Mapping[str, float]:
        """Of the user's jobs; of everybody's, with more doubt, if none of the user's are known."""
        for kind in kinds:
            scores = self._experts.evidence(kind).scores
            if scores and closeness(kind) in FAR:
                if closeness(kind) is Source.SAME_USER:
                    return scores
                return {key: NEWCOMERS_SHARE * one for key, one in scores.items()}
        return {}
