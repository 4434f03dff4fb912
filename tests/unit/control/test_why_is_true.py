"""`why` gives one reason, the binding one, and neither jobs nor times that are not there."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.unit.control.memory import Bench, play, playing
from treadle.wire.jobs import State, Why

POLICIES = ("fifo", "backfill", "srtf", "las", "afs", "antman", "muri-s", "philly", "max-min")


@playing(devices=1)
async def test_u14_an_estimate_that_rests_on_a_default_is_unknown(here: Bench) -> None:
    first = await here.runs()
    job = await here.submit("forever")
    await here.settle()
    estimate = await here.start(job)
    assert (estimate.earliest_s, estimate.latest_s, estimate.runs) == (None, None, 0)
    assert estimate.unknown == (first,)


JOBS = st.lists(
    st.fixed_dictionaries(
        {
            "devices": st.sampled_from(["1", "2", "1..2", "3"]),
            "priority": st.sampled_from([0, 0, 0, -10, 10]),
            "guaranteed": st.booleans(),
            "resumable": st.booleans(),
            "estimate_s": st.sampled_from([None, 20.0, 600.0, 7200.0]),
            "held": st.sampled_from([False, False, False, True]),
            "wait_for_capacity": st.just(value=True),
        }
    ),
    min_size=2,
    max_size=7,
)


@pytest.mark.parametrize("policy", POLICIES)
@settings(
    max_examples=4,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
@given(jobs=JOBS, devices=st.integers(1, 3))
def test_u14_what_why_says_is_so(policy: str, jobs: list[dict[str, object]], devices: int) -> None:
    async def story(here: Bench) -> None:
        known = [await here.submit("forever", **fields) for fields in jobs]  # type: ignore[arg-type]
        await here.settle()
        context = here.live.context
        waiting = [job for job in known if here.state(job) in (State.PENDING, State.HELD)]
        holding = [job for job in known if context.scheduler.jobs[job].allocation is not None]
        assert len(waiting) + len(holding) == len(known)
        for job in waiting:
            why = await here.live.why(job)
            _check_names(why, known)
            _check_counts(why, waiting=len(waiting), holding=len(holding))
            _check_times(why)

    with TemporaryDirectory() as folder:
        play(story, Path(folder), devices=devices, policy=policy)


def _check_names(why: Why, known: list[str]) -> None:
    """Every job that is named exists, and is not the job itself."""
    named = [value for name, value in why.numbers.items() if name.endswith(("job", "jobs"))]
    for value in (*named, why.numbers.get("holders", ())):
        for name in value if isinstance(value, tuple) else (value,):
            assert name in known, why.numbers
            assert name != why.id, why.numbers


def _check_counts(why: Why, *, waiting: int, holding: int) -> None:
    """Every count of jobs is at most what there is."""
    assert why.numbers.get("ahead", 0) < waiting  # type: ignore[operator]
    assert why.numbers.get("count", 0) < waiting  # type: ignore[operator]
    holders = why.numbers.get("holders", ())
    assert len(holders) <= holding  # type: ignore[arg-type]
    if why.position is not None:
        assert 1 <= why.position <= waiting


def _check_times(why: Why) -> None:
    """No job is waited for that ends after this one starts; an unknown start has no figures."""
    estimate = why.estimate
    if estimate is None:
        return
    if why.never:
        assert estimate.earliest_s is None
    assert (estimate.earliest_s is None) >= (estimate.latest_s is None and estimate.runs == 0)
