"""What holds for every group of jobs that take turns at each resource."""

from hypothesis import given
from hypothesis import strategies as st

from treadle.models.stages import Stages
from treadle.models.tokens import EXACT_MAX, LANES, Lanes, iteration_times

LENGTHS = st.one_of(st.just(0.0), st.floats(1e-4, 2.0))
TURNS = st.sampled_from([0.0, 0.016, 0.032, 1.0])


@st.composite
def stages(draw: st.DrawFn, *, least: float = 0.5) -> Stages:
    """Stages one after another, with time between them, or overlapping by up to `least`."""
    lengths = [draw(LENGTHS) for _ in LANES]
    factor = draw(st.sampled_from([least, 1.0, 1.5]))
    load_s, prepare_s, compute_s, sync_s = lengths
    return Stages(load_s, prepare_s, compute_s, sync_s, sum(lengths) * factor or 1.0)


@st.composite
def groups(draw: st.DrawFn, *, largest: int = EXACT_MAX) -> list[Stages]:
    """Members of one to three kinds, so that equal ones meet often."""
    kinds = draw(st.lists(stages(), min_size=1, max_size=3))
    return draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=largest))


def speeds(group: list[Stages], turn_s: float, lanes: Lanes = LANES) -> list[float]:
    times = iteration_times(group, lanes=lanes, turn_s=turn_s)
    return [member.alone_s / time for member, time in zip(group, times, strict=True)]


@given(groups(largest=EXACT_MAX + 3), TURNS)
def test_none_is_faster_than_alone_and_no_resource_serves_more_than_it_can(group, turn_s) -> None:
    """To a hundredth: jobs that overlap their stages are counted a trifle too fast."""
    times = iteration_times(group, lanes=LANES, turn_s=turn_s)
    for place, lanes in enumerate(LANES):
        served = [min(member[place], member.alone_s) for member in group]
        used = sum(service_s / time for service_s, time in zip(served, times, strict=True))
        assert used <= lanes * 1.01
    by_kind: dict[Stages, float] = {}
    for member, time in zip(group, times, strict=True):
        assert 0 < member.alone_s <= time
        assert abs(by_kind.setdefault(member, time) / time - 1.0) <= 1e-9, "equal jobs"


@given(groups(), TURNS, st.randoms(use_true_random=False))
def test_the_order_of_members_does_not_matter(group, turn_s, random) -> None:
    shuffled = list(enumerate(group))
    random.shuffle(shuffled)
    found = speeds([member for _, member in shuffled], turn_s)
    expected = speeds(group, turn_s)
    for (place, _), speed in zip(shuffled, found, strict=True):
        assert abs(speed - expected[place]) <= 1e-9


@given(groups(), TURNS)
def test_a_job_that_uses_nothing_is_not_held_up_and_holds_up_nobody(group, turn_s) -> None:
    idle = Stages(0.0, 0.0, 0.0, 0.0, 1.0)
    assert speeds([*group[: EXACT_MAX - 1], idle], turn_s) == [
        *speeds(group[: EXACT_MAX - 1], turn_s),
        1.0,
    ]


@given(groups(largest=EXACT_MAX - 1), TURNS, st.floats(1e-4, 2.0), st.floats(1.0, 3.0))
def test_at_a_single_resource_a_newcomer_speeds_nobody_up(group, turn_s, length_s, idle) -> None:
    """With several it can, see tests/unit/models/test_model_tokens.py."""
    newcomer = Stages(0.0, 0.0, length_s, 0.0, length_s * idle)
    computing = [member._replace(load_s=0.0, prepare_s=0.0, sync_s=0.0) for member in group]
    before, after = speeds(computing, turn_s), speeds([*computing, newcomer], turn_s)
    for old, new in zip(before, after, strict=False):
        assert new <= old * 1.001
