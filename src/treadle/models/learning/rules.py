"""The choices that a learner of speeds leaves open, and what each of its two users chooses.

Everything else is the same for both: which observations count, that the kinds and sizes that
changed longest ago are forgotten first, and that the closest kind that was seen answers.

SIMULATED is for `--belief learned`, where each report of a speed is an observation: reports of one
job hardly vary. It follows CoDDL (Hwang et al., NSDI'21; AFS): "overestimate first, re-adjust
later". RECORDED is for the record of a run (`treadle.study.whatif`), where an observation is how
long a whole job takes at a size, which varies from one look to the next.
"""

from collections.abc import Callable
from dataclasses import dataclass

from treadle.models.fitted import Point
from treadle.models.learning.averaging import Newest, Repeats, Smoothed
from treadle.models.learning.curves import SERIAL, Curve, FittedCurve


@dataclass(frozen=True, slots=True)
class Rules:
    """How a learner makes estimates of observations, and how much it remembers."""

    repeats: Repeats  # what several measurements at one size come to
    curve: Callable[[tuple[Point, ...]], Curve]  # what points by ascending size say of others
    serial: float  # share of the work that more devices do not speed up, of kinds never seen
    kinds_max: int
    sizes_max: int  # of one kind


SIMULATED = Rules(
    repeats=Smoothed(), curve=FittedCurve.through, serial=0.0, kinds_max=10_000, sizes_max=128
)
RECORDED = Rules(
    repeats=Newest(), curve=FittedCurve.through, serial=SERIAL, kinds_max=20_000, sizes_max=64
)
