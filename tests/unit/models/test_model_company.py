"""What jobs get done together: the predictor, the live belief, and what became of company."""

from dataclasses import replace

import pytest
from benchmarks.company import by, left_out, mean_error, read
from hypothesis import given
from hypothesis import strategies as st

from tests.shared import SHARED
from treadle.control.loop import belief_on
from treadle.core.cluster import Cluster, Node
from treadle.core.job import JobSpec, Profile
from treadle.core.sighting import Load, Sighting
from treadle.models.company.belief import UNSEEN, CompanyBelief, kind_of
from treadle.models.company.predictor import TIME_SLICED, predict
from treadle.models.company.record import PAIRS_MAX, CompanyRecord
from treadle.models.learning.kinds import by_command
from treadle.models.learning.knowledge import Knowledge
from treadle.models.learning.outcome import Outcome

GPU = Cluster((Node("n0", 1, device_memory_gib=80.0),))
BUSY = st.floats(0.0, 1.0)


def seen(name: str, busy: float | None, memory_gib: float = 4.0, **fields: object) -> JobSpec:
    """A job as it is known once it ran alone."""
    profile = Profile(busy=busy, memory_gib=memory_gib, model=name)
    return JobSpec(name, 100.0, profile=profile, **fields)  # type: ignore[arg-type]


# -- the predictor ------------------------------------------------------------------------------


def test_sums_of_groups_measured_on_an_h200_are_predicted_within_seven_per_cent() -> None:
    path = SHARED / "profiles" / "h200_sharing.csv"
    if not path.exists():
        pytest.skip(f"no {path}; set TREADLE_SHARED to the folder that holds profiles/")
    busy, groups = read(path)
    assert len(groups) == 25
    assert mean_error(busy, groups, by(TIME_SLICED)) <= 0.07
    assert left_out(busy, groups) <= 0.07


def test_two_saturating_jobs_gain_nothing_to_speak_of_without_mps_and_much_with_it() -> None:
    assert sum(predict([(1.0, None, None)] * 2)) < 1.15
    assert 1.15 < sum(predict([(1.0, None, None)] * 2, mps=True)) < 1.4


@given(st.lists(BUSY, min_size=1, max_size=4), BUSY, st.booleans())
def test_more_company_helps_no_member(busy: list[float], more: float, mps: bool) -> None:
    few = predict([(share, None, None) for share in busy], mps)
    many = predict([(share, None, None) for share in (*busy, more)], mps)
    assert all(0 < share <= 1 + 1e-9 for share in many)
    assert all(b <= a + 1e-9 for a, b in zip(few, many[:-1], strict=True))


# -- the live belief ----------------------------------------------------------------------------


def test_u9_no_job_shares_live_on_invented_numbers() -> None:
    """Before, stage times were drawn from a hash of the job's id."""
    belief = belief_on(GPU)
    unknown, known = seen("a", None), seen("b", 0.1)
    assert belief.may_share(unknown) == UNSEEN
    assert belief.efficiency([unknown, known]) == 0.0
    assert belief.efficiency([known, seen("c", 0.1)]) > 1.9


def test_u9_memory_that_is_not_known_keeps_a_job_alone_where_devices_have_a_limit() -> None:
    spec = seen("a", 0.1, 0.0)
    assert belief_on(GPU).may_share(spec) == "its GPU memory is not known: --gpu-memory says it"
    assert belief_on(GPU).may_share(replace(spec, device_memory_gib=2.0)) is None
    assert belief_on(Cluster.grid(1, 1)).may_share(spec) is None


def test_reasons_why_jobs_do_not_share() -> None:
    belief = belief_on(GPU)
    assert belief.refuses([seen("a", 0.1, exclusive=True), seen("b", 0.1)]) == (
        "it is exclusive (--exclusive)"
    )
    assert belief.refuses([seen("a", 1.0), seen("b", 1.0)]) == "the sum of 1.05 is below 1.15"
    assert belief.refuses([seen("a", 0.1), seen("b", None)]) == (f"job b cannot share: {UNSEEN}")
    floor = belief.refuses([seen("a", 0.9), seen("b", 0.5)], floor=0.7)
    assert floor is not None
    assert "below 0.70" in floor
    assert belief.apart().may_share(seen("a", 0.1)) == "sharing is switched off (share=off)"


@given(st.floats(0.05, 0.9), st.floats(0.5, 8.0), st.floats(0.5, 8.0), st.integers(1, 16))
def test_jobs_slow_by_what_they_use_more_than_there_is_of_cores(
    busy: float, one: float, other: float, cores: int
) -> None:
    """In proportion, without a step; with far too few they do not share at all."""
    pair = [using(seen("a", busy), one), using(seen("b", busy), other)]
    belief, roomy = belief_with(cores), belief_with(1000)
    kept = min(1.0, cores / (one + other))
    assert belief.relative(pair) == pytest.approx([kept * share for share in roomy.relative(pair)])
    assert belief.relative(pair) == belief_with(1000).relative(pair, cores)
    wrong = belief.refuses(pair, sum_min=1.0, floor=0.0)
    assert (wrong is not None) == (
        one + other > cores * 1.15 or sum(belief.relative(pair)) < 1.0
    ), wrong


def test_a_job_that_asks_for_cores_has_them() -> None:
    asks = replace(seen("a", 0.2), host_cores=12.0)
    assert belief_with(16).refuses([asks, using(seen("b", 0.2), 4.0)]) is None
    assert belief_with(16).refuses([asks, using(seen("b", 0.2), 6.0)]) == (
        "they use 18 cores together, and there are 16 for them"
    )


def belief_with(cores: int) -> CompanyBelief:
    return belief_on(Cluster((Node("n0", 1, cores=cores),)))


def using(spec: JobSpec, cores: float) -> JobSpec:
    return replace(spec, profile=replace(spec.profile, cores=cores))


# -- what became of it --------------------------------------------------------------------------


def test_company_that_was_bad_is_remembered_for_the_two_kinds_alone() -> None:
    belief = belief_on(GPU)
    pair = [seen("a", 0.3), seen("b", 0.3)]
    before, other = belief.efficiency(pair), belief.efficiency([pair[0], seen("c", 0.3)])
    for _ in range(4):
        predicted = sum(belief.relative(pair))
        belief.record.observe([kind_of(s) for s in pair], predicted, 0.9, mps=False)
    assert sum(belief.relative(pair)) == pytest.approx(0.9, rel=0.1)
    assert belief.efficiency(pair) == 0.0 < before, "its sum is below what is asked for"
    assert belief.efficiency([pair[0], seen("c", 0.3)]) == other
    belief.mps = True
    assert belief.efficiency(pair) > before, "with MPS it is another matter"


def test_the_record_is_stored_as_plain_numbers() -> None:
    record = CompanyRecord()
    record.observe(["a", "b", "c"], 2.0, 1.0, mps=True)
    record.fault("d")
    again = CompanyRecord.restored(record.stored())
    assert again.stored() == record.stored()
    assert again.factor("c", "a", mps=True) == record.factor("a", "c", mps=True) == 0.75
    assert again.factor("a", "c", mps=False) == 1.0
    assert again.faulty("d")
    assert CompanyRecord.restored({"nonsense": 3.0}).stored() == {}


def test_the_record_is_bounded() -> None:
    record = CompanyRecord()
    for number in range(PAIRS_MAX + 5):
        record.observe(["a", f"b{number}"], 2.0, 1.5, mps=False)
    assert len(record.stored()) == PAIRS_MAX
    assert record.factor("a", "b0", mps=False) == 1.0


def test_jobs_part_once_they_were_too_slow_for_a_while() -> None:
    belief = belief_on(GPU)

    def why(one: float, other: float | None, now: float) -> str | None:
        group = {"a": (seen("a", 0.3), one), "b": (seen("b", 0.3), other)}
        return belief.measured(group, now, mps=False)

    assert why(0.45, 0.45, 0.0) is None
    assert why(0.45, 0.45, 19.0) is None
    assert why(0.7, 0.7, 19.5) is None
    assert why(0.45, None, 20.0) is None, "of the other nothing is known"
    assert why(0.45, 0.45, 20.0) is None, "it counts from the last good moment"
    assert why(0.45, 0.45, 40.0) == "together they get 0.90 times as much done as one alone"
    assert belief.to_part(["b", "a"])
    assert why(0.45, 0.45, 60.0) is None, "it was said"
    belief.present([], [])
    assert why(0.3, 1.0, 60.0) is None
    assert why(0.3, 1.0, 80.0) == "job a keeps 0.30 of its speed alone; at least 0.50 was meant"


def test_a_run_of_a_moment_hides_nothing_that_jobs_of_the_same_needs_have_shown() -> None:
    """1. One job trains for a minute. 2. Another of other steps is cancelled after some seconds: it
    had loaded little yet. 3. The same command comes again, and needs what the first one did."""
    knowledge = Knowledge()
    first = by_command("me", "", ("python", "train.py", "--steps", "900"))
    other = by_command("me", "", ("python", "train.py", "--steps", "100"))
    whole = Sighting(alone_s=60.0, load=Load(busy=0.4, cores=2.0), device_memory_peak_gib=20.0)
    moment = Sighting(
        alone_s=2.0, load=Load(busy=0.01), device_memory_peak_gib=0.5, first_step_s=3.0
    )
    knowledge.observe(first, Outcome(1, 60.0, whole=True, seen=whole))
    knowledge.observe(other, Outcome(1, 3.0, whole=False, seen=moment))
    profile = knowledge.expect(other, 1).profile
    assert profile.memory_gib >= 20.0
    assert profile.busy is None, "no run with as many steps was watched"


def test_cores_are_learned_beside_each_device() -> None:
    knowledge = Knowledge()
    kinds = by_command("me", "", ("python", "train.py"))
    seen_alone = Sighting(alone_s=60.0, load=Load(busy=0.4, cores=6.0))
    knowledge.observe(kinds, Outcome(2, 60.0, whole=True, seen=seen_alone))
    assert knowledge.expect(kinds, 2).profile.cores == 3.0


# -- pairs that others measured -----------------------------------------------------------------
