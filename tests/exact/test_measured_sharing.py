"""Five groups of jobs that shared one H200 freely: their speeds, measured and predicted.

G is a transformer that only computes. C is a small network whose images are augmented on one CPU
core. S reads from storage for 54 ms and then needs 113 ms for a copy on the host and the device's
work, which were measured as one: the split into 48 and 65 ms is fitted to these five groups, and so
is the length of a turn. Everything else was measured alone.
"""

import pytest

from treadle.core.job import JobSpec, Profile
from treadle.models.scaling import ScalingModel
from treadle.models.stages import StageTimes
from treadle.models.tokens import TokenModel

PROFILES = {
    "G": Profile(compute_s=0.0323),
    "C": Profile(prepare_s=0.146, compute_s=0.0083),
    "S": Profile(load_s=0.054, prepare_s=0.048, compute_s=0.065),
}
MEASURED = {
    "GC": (1.00, 0.84),
    "GCS": (0.70, 0.81, 0.72),
    "GCCS": (0.71, 0.86, 0.86, 0.70),
    "GG": (0.49, 0.49),
    "GGCS": (0.38, 0.38, 0.75, 0.56),
}


def predicted(names: str) -> list[float]:
    """Speeds relative to alone."""
    model = TokenModel(ScalingModel(), StageTimes())
    specs = [JobSpec(f"j{n}", 1.0, profile=PROFILES[name]) for n, name in enumerate(names)]
    return [
        speed / model.alone(spec, 1)
        for spec, speed in zip(specs, model.together(specs), strict=True)
    ]


@pytest.mark.parametrize("names", MEASURED)
def test_every_member_runs_as_measured(names: str) -> None:
    assert predicted(names) == pytest.approx(MEASURED[names], rel=0.13)


@pytest.mark.parametrize("names", MEASURED)
def test_a_group_gets_as_much_done_as_measured(names: str) -> None:
    assert sum(predicted(names)) == pytest.approx(sum(MEASURED[names]), rel=0.05)


def test_groups_are_ordered_as_measured() -> None:
    """What a matching of jobs needs to know."""

    def gain(names: str) -> float:
        return sum(MEASURED[names])

    assert sorted(MEASURED, key=gain) == sorted(MEASURED, key=lambda names: sum(predicted(names)))
