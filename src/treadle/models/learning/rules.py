"""The choices that a learner leaves open, and what each of its two users chooses.

Everything else is the same for both: which observations count, that the kinds and sizes that
changed longest ago are forgotten first, and that the closest kind that was seen answers.

| | SIMULATED (`--belief learned`) | LIVE (`treadle up`) | why they differ |
|---|---|---|---|
| an observation | each report of a speed | the end of an attempt | most scripts report nothing |
| repeats | Smoothed | Newest | reports of one job vary less than lengths of several |
| unseen sizes | FittedCurve | InterpolatedCurve | see below |
| unseen kinds | scale linearly | a serial share of a tenth | see below |

The simulator follows CoDDL (Hwang et al., NSDI'21; AFS): "overestimate first, re-adjust later". It
starts a job that was never measured with a generous share, because giving devices up is cheap and
getting more is not. Live, giving devices up costs a restart whose price is not measured yet. So
LIVE does not probe: it expects no gain beyond the sizes that jobs ran at.

Issue 14 measures restart costs and probes one size at a time where that pays for itself. LIVE then
takes FittedCurve and linear scaling of unseen kinds, and the simulator hides as much as is unknown
live; what is left of the two values is one.
"""

from collections.abc import Callable
from dataclasses import dataclass

from treadle.models.fitted import Point
from treadle.models.learning.averaging import Newest, Repeats, Smoothed
from treadle.models.learning.curves import SERIAL, Curve, FittedCurve, InterpolatedCurve


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
LIVE = Rules(
    repeats=Newest(), curve=InterpolatedCurve.through, serial=SERIAL, kinds_max=20_000, sizes_max=64
)
