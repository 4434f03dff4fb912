"""`why` gives one reason, the binding one, and neither jobs nor times that are not there."""

import re
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.unit.control.memory import Bench, play
from treadle.wire.jobs import State, Why

POLICIES = ("fifo", "backfill", "srtf", "las", "afs", "antman", "muri-s", "philly", "max-min")


def test_u14_the_minute_that_a_job_is_left_alone_is_the_reason(tmp_path: Path) -> None:
    """1. A long job that can resume runs. 2. A shorter one would preempt it, but not within the
    first minute. 3. That is the reason, and the estimate is the rest of the minute."""

    async def story(here: Bench) -> None:
        long = await here.submit("forever", estimate_s=600.0, resumable=True)
        await here.reached(long, State.RUNNING)
        short = await here.submit("forever", estimate_s=10.0)
        await here.settle()
        why = await here.live.why(short)
        assert why.cause == "settling"
        assert re.fullmatch(
            f"job {long} would make way for it, but is left alone for a while after a start; "
            r"that is over in (1 min|\d+ s)",
            why.because,
        )
        assert "10 min" not in why.change
        assert why.estimate is not None
        assert why.estimate.latest_s is not None
        assert why.estimate.latest_s <= 60.0

    play(story, tmp_path, devices=1, policy="srtf")


def test_u14_an_estimate_that_rests_on_a_default_is_unknown(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        first = await here.submit("forever")
        await here.reached(first, State.RUNNING)
        job = await here.submit("forever")
        await here.settle()
        estimate = (await here.live.why(job)).estimate
        assert estimate is not None
        assert (estimate.earliest_s, estimate.latest_s, estimate.runs) == (None, None, 0)
        assert estimate.sentence == f"how long job {first} will run is not known"

    play(story, tmp_path, devices=1)


def test_u14_an_opportunistic_job_is_told_about_devices_and_not_about_jobs(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        first = await here.submit("forever", guaranteed=False)
        await here.reached(first, State.RUNNING)
        job = await here.submit("forever", guaranteed=False)
        await here.settle()
        assert (await here.live.why(job)).because == (
            "it is opportunistic and needs 1 device that no other opportunistic job uses; "
            "no such device can be given to it now"
        )

    play(story, tmp_path, devices=1, policy="antman")


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
    for text in (why.because, why.change, *why.evidence):
        for listed in re.findall(r"\bjobs? ((?:\d+(?:, )?)+)", text):
            for name in listed.rstrip(", ").split(", "):
                assert name in known, text
        if text == why.because:
            assert not re.search(rf"\bjob {why.id}\b", text), text


def _check_counts(why: Why, *, waiting: int, holding: int) -> None:
    """Every count of jobs is at most what there is."""
    for count in re.findall(r"(\d+) jobs? waits? ahead", why.because):
        assert int(count) < waiting, why.because
    for count in re.findall(r"(\d+) waiting jobs?", why.because):
        assert int(count) < waiting, why.because
    for line in why.evidence:
        for count in re.findall(r"(\d+) jobs? holds? devices", line):
            assert int(count) == holding, line
        for count in re.findall(r"(\d+) jobs? waits?$", line):
            assert int(count) <= waiting, line
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
    if estimate.latest_s is not None and (end := re.search(r"in about ([^,]*)", why.change)):
        number, unit = end[1].split(" ")
        seconds = (
            float(number) * {"s": 1, "min": 60, "h": 3600, "day": 86_400, "days": 86_400}[unit]
        )
        assert seconds <= 1.1 * estimate.latest_s + 1, (why.change, estimate)
    assert "started at the next decision" not in why.because
