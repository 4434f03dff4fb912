"""AntMan's sharing model: how many iterations of the host one of the guest's takes, by hand."""

import pytest

from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
from treadle.core.job import JobSpec, Profile
from treadle.models.antman_gaps import GapsModel, iterations
from treadle.models.catalogue import muri_profile
from treadle.models.staggered import ALONE

ON = Allocation((Device("n0", 0),))


def spec(name: str, profile: Profile, *, guaranteed: bool) -> JobSpec:
    return JobSpec(name, 1.0, profile=profile, guaranteed=guaranteed)


def host(model: str = "dqn") -> JobSpec:
    return spec("host", muri_profile(model, 1), guaranteed=True)


def guest(model: str = "bert") -> JobSpec:
    return spec("guest", muri_profile(model, 1), guaranteed=False)


@pytest.mark.parametrize(
    ("stages", "beside", "count"),
    [
        # Two gaps of 1 for the data and one of 1 for computing; nothing is left over.
        ((2, 1, 0), (1, 1, 0), 3),
        # Data: one gap of 2 and half of the next, in whose rest a second of computing fits; then
        # one gap of 3 for the other three; the network's 2 fit beside the host's data.
        ((3, 4, 2), (2, 1, 1), 3),
        # The same, but the network goes on beyond the host's data.
        ((3, 4, 2.5), (2, 1, 1), 4),
        # Computing ends within the host's data, and the network fits into what is left.
        ((0, 4, 2), (2, 1, 1), 2),
        # Computing ends after the host's data, so the network waits for the next iteration.
        ((0, 5.5, 4), (2, 1, 1), 3),
        # Nothing to do for the host's network: a guest without a network stage.
        ((0, 1, 0), (1, 0, 0), 1),
        # A network stage that is no longer than the host's data costs no iteration at all.
        ((0, 0, 2), (2, 1, 1), 0),
    ],
)
def test_stages_in_gaps(stages, beside, count: int) -> None:
    assert iterations(stages, beside) == count


def test_the_slowest_host_counts_and_no_job_is_faster_than_alone() -> None:
    """A guest with 798 ms of its own beside a quick host is as fast as alone, or slower."""
    model, long = GapsModel(), guest("shufflenet_v2_x1_0")
    speeds = [
        model.iterations_per_s(long, ON, ring)
        for ring in ([], [(host("bert"), ON)], [(host("bert"), ON), (host("a2c"), ON)])
    ]
    assert speeds == sorted(speeds, reverse=True)
    assert speeds[0] == pytest.approx(1 / (0.798 * ALONE))


def test_jobs_with_the_same_guarantee_take_turns() -> None:
    model = GapsModel()
    for one in (host(), guest()):
        assert model.together([one, one]) == (model.alone(one, 1) / 2,) * 2


def test_efficiency_counts_jobs_and_kinds_include_the_guarantee() -> None:
    model = GapsModel()
    pair = [host(), guest()]
    assert model.efficiency(pair) == pytest.approx(1 + 0.178 / (2 * 0.490))
    assert model.kind(host()) != model.kind(guest("dqn"))
