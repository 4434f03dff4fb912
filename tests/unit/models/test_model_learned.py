"""A belief that learns: generous before it has seen anything, and then what it saw."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
from treadle.core.job import JobSpec, Profile
from treadle.models.learning.belief import Learned
from treadle.models.learning.speeds import SIZES_MAX
from treadle.models.scaling import ScalingModel, speedup
from treadle.models.stages import StageTimes
from treadle.models.tokens import TokenModel
from treadle.testing.builders import job

SIZES = (1, 2, 3, 5, 8, 13, 40)


def of(identity: str, model: str = "resnet", asked: int = 1) -> JobSpec:
    profile = Profile(size=asked, model=model, serial=0.3)
    return JobSpec(identity, 10.0, sizes=SIZES, asked=asked, profile=profile)


def seen(*points: tuple[int, float]) -> Learned:
    belief = Learned(ScalingModel())
    for size, speed in points:
        belief.observe(of("a"), size, speed)
    return belief


def speeds(belief: Learned, spec: JobSpec) -> list[float]:
    return [belief.alone(spec, size) for size in SIZES]


def test_a_job_of_a_kind_never_seen_is_expected_to_scale_linearly() -> None:
    assert speeds(Learned(ScalingModel()), of("a")) == pytest.approx(SIZES)


def test_one_size_seen_is_continued_with_a_serial_share_of_a_tenth() -> None:
    belief = seen((5, 3.0))
    expected = [3.0 * speedup(size, 0.1) / speedup(5, 0.1) for size in SIZES]
    assert speeds(belief, of("a")) == pytest.approx(expected)


def test_what_was_measured_holds_at_its_size_and_leaves_no_step_beside_it() -> None:
    belief = seen((1, 1.0), (4, 3.0), (8, 4.0), (16, 6.5))
    assert belief.alone(of("a"), 8) == pytest.approx(4.0)
    times = [1.0 / belief.alone(of("a"), size) for size in range(1, 33)]
    falls = [later / earlier for earlier, later in pairwise(times[6:])]
    assert all(0.85 < fall <= 1.0 for fall in falls)


@given(st.dictionaries(st.integers(1, 64), st.floats(0.01, 100.0), min_size=1, max_size=SIZES_MAX))
def test_beyond_what_was_measured_nothing_is_better_than_linear(points: dict[int, float]) -> None:
    belief = seen(*points.items())
    least, most = min(points), max(points)
    for size in (1, least, most, 100):
        speed = belief.alone(of("a"), size)
        if size >= most:
            assert speed <= points[most] * size / most * (1 + 1e-9)
        if size <= least:
            assert speed >= points[least] * size / least * (1 - 1e-9)


def test_the_basis_changes_with_the_answers_and_only_then() -> None:
    belief, other = seen((2, 5.0)), of("b", model="bert")
    first = belief.basis(of("a"))
    belief.observe(of("b"), 2, 5.0)
    assert belief.basis(of("a")) == first
    assert belief.basis(other) == 0
    belief.observe(other, 2, 5.0)
    belief.observe(of("a"), 4, 8.0)
    assert len({first, belief.basis(other), belief.basis(of("a")), 0}) == 4


def test_sharing_is_the_models_and_the_speed_alone_is_what_was_seen() -> None:
    times = StageTimes()
    model = TokenModel(ScalingModel(), times)
    belief = Learned(model)
    a, b = job("a", length_s=5.0), job("b", length_s=5.0)
    belief.observe(a, 1, 10.0)
    belief.observe(b, 1, 20.0)
    shares = [speed / model.alone(a, 1) for speed in model.together((a, b))]
    assert belief.together((a, b)) == pytest.approx((10 * shares[0], 20 * shares[1]))
    assert belief.efficiency((a, b)) == model.efficiency((a, b))
    assert belief.kind(a) == (True, model.kind(a))
    assert belief.kind(job("c")) == (False, model.kind(job("c")))
    here = Allocation((Device("n0", 0),))
    beside = [(b, Allocation((Device("n0", 0),), turn=1))]
    assert belief.iterations_per_s(a, here, ()) == 10.0
    assert belief.iterations_per_s(a, here, beside) == pytest.approx(10.0 * shares[0])
