"""AITurbo in small stories: who goes first, who gives way, who grows, and what CPU slots do."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.stories import play
from treadle.core.cluster import Cluster, Node
from treadle.core.events import JobFinished
from treadle.core.job import Job, JobSpec, Profile
from treadle.core.scheduler import Scheduler
from treadle.models.forecasts import Forecast, Forecasting
from treadle.models.scaling import ScalingModel
from treadle.models.stages import StageTimes
from treadle.models.tokens import TokenModel
from treadle.models.workers import Count, WorkersModel
from treadle.policies.aiturbo.aiturbo import AITurbo, Memory
from treadle.policies.base.placement import placement
from treadle.sim.engine import SimulatedEngine
from treadle.sim.run import Simulation
from treadle.testing.builders import job

MIXED = Cluster((Node("g", 4), Node("c", 8, device_type="cpu")))


class Blind:
    """No job's end can be predicted."""

    def forecast(self, job: Job, now: float) -> Forecast:
        return Forecast(1.0, predictable=False)

    def trusting(self, job: Job, now: float) -> float:
        return 1.0


def policy(*, blind: bool = False, **parameters: object) -> AITurbo:
    model = TokenModel(ScalingModel(), StageTimes())
    belief = Forecasting(model, Blind()) if blind else model
    words = {"every_s": 50.0, "restart_s": 0.0, "limits": (1e3, 1e4), **parameters}
    return AITurbo(placement("consolidate"), belief, **words)  # type: ignore[arg-type]


def elastic(name: str, *sizes: int, asked: int = 0, length_s: float = 100.0, at: float = 0.0):
    return job(name, size=asked or sizes[-1], sizes=sizes, length_s=length_s, at=at)


def starts(lines: list[str]) -> list[str]:
    return [line for line in lines if " start " in line]


def test_a_job_that_was_given_much_makes_way_for_one_that_was_given_nothing():
    """1. old passes the first limit and falls a level. 2. new takes its devices, and old waits."""
    jobs = [job("old", size=4, length_s=900), job("new", size=4, length_s=10, at=600)]
    lines = play(policy(blind=True), jobs, "1x4")
    assert starts(lines) == [
        "0 start old n0:0,1,2,3",
        "600 start new n0:0,1,2,3",
        "610 start old n0:0,1,2,3",
    ]


def test_within_a_level_no_job_is_evicted():
    jobs = [job("old", size=4, length_s=100), job("new", size=4, length_s=10, at=5)]
    lines = play(policy(blind=True, every_s=1e4), jobs, "1x4")
    assert starts(lines)[1] == "100 start new n0:0,1,2,3"


def test_an_elastic_victim_gives_only_what_is_needed():
    jobs = [elastic("old", 1, 2, 4, length_s=900), job("new", size=2, length_s=10, at=610)]
    lines = play(policy(blind=True), jobs, "1x4")
    assert lines[1:4] == ["610 change old n0:0,1", "610 start new n0:2,3", "620 finish new"]
    assert "660 change old n0:0,1,2,3" in lines


def test_no_job_is_evicted_in_vain():
    """big would need more than the only job of a lower level has."""
    jobs = [
        job("low", size=2, length_s=2000),
        job("other", size=2, length_s=300, at=1005),
        job("big", size=4, length_s=10, at=1010),
    ]
    lines = play(policy(blind=True), jobs, "1x4")
    assert not [line for line in lines if line.startswith("1010 ")]


def test_of_predictable_jobs_the_one_with_the_least_service_left_starts_first():
    jobs = [
        job("running", size=4, length_s=100),
        job("long", size=4, length_s=500, at=1),
        job("short", size=4, length_s=10, at=2),
        job("middle", size=4, length_s=200, at=3),
    ]
    order = dict.fromkeys(line.split()[2] for line in starts(play(policy(), jobs, "1x4")))
    assert list(order) == ["running", "short", "middle", "long"]


def test_idle_devices_go_to_running_jobs_in_a_full_round_and_not_before():
    jobs = [elastic("a", 1, 2, 4, asked=2, length_s=400), job("b", size=2, length_s=10)]
    changes = [line for line in play(policy(), jobs, "1x4") if "change" in line]
    assert changes == ["50 change a n0:2,3,0,1"]


def test_a_move_must_pay_for_its_restart():
    jobs = [elastic("a", 1, 2, 4, asked=2, length_s=120), job("b", size=2, length_s=10)]
    lines = play(policy(restart_s=60.0), jobs, "1x4")
    assert not any("change" in line for line in lines)


def test_running_jobs_shrink_for_one_that_waits():
    jobs = [elastic("a", 1, 2, 4, length_s=300), job("b", size=1, length_s=10, at=10)]
    lines = play(policy(), jobs, "1x4")
    assert "50 change a n0:0,1" in lines
    assert "50 start b n0:2" in lines


def uneven(name: str, asked: int, *, length_s: float = 1000.0) -> JobSpec:
    """A job that is slower on three devices than on two: its layers cannot be split in three."""
    steps_s = ((1, 1.0), (2, 0.6), (3, 2.0), (4, 0.3))
    spec: JobSpec = elastic(name, 1, 2, 3, 4, asked=asked, length_s=length_s)
    return replace(spec, profile=replace(spec.profile, curve=steps_s))


def test_a_job_grows_past_a_size_on_which_it_is_slower():
    lines = play(policy(), [uneven("a", 1)], "1x4")
    assert starts(lines) == ["0 start a n0:0,1,2,3"]


def test_who_waits_long_is_promoted():
    """old has had its share, but after the patience has run out newer jobs no longer pass it."""
    jobs = [job("old", size=4, length_s=400)]
    jobs += [job(f"new{n}", size=4, length_s=90, at=300.0 + 90.0 * n) for n in range(8)]
    ends = []
    for patience_s in (100.0, 1e6):
        chosen = policy(blind=True, patience=0.0, patience_s=patience_s)
        lines = play(chosen, jobs, "1x4")
        ends += [float(line.split()[0]) for line in lines if line.endswith("finish old")]
    assert ends[0] < ends[1]


@given(lengths=st.lists(st.integers(1, 500), min_size=1, max_size=12, unique=True))
def test_predictable_jobs_that_were_served_alike_start_in_order_of_value(lengths):
    jobs = [job(f"j{n}", length_s=float(length)) for n, length in enumerate(lengths)]
    order = [line.split()[2] for line in starts(play(policy(every_s=1e9), jobs, "1x1"))]
    assert order == [made.id for made in sorted(jobs, key=lambda made: made.iterations)]


@given(arrivals=st.lists(st.integers(0, 300), min_size=1, max_size=8, unique=True))
def test_unpredictable_jobs_are_counted_by_attained_service(arrivals):
    """Each has a device of its own, and no use for the other; who came later has had less."""
    jobs = [
        elastic(f"j{n}", 1, 64, asked=1, length_s=1000.0, at=float(at))
        for n, at in enumerate(sorted(arrivals))
    ]
    chosen, found = policy(blind=True), []

    def watch(now, events, actions, scheduler):
        if now >= max(arrivals):
            afresh = scheduler.snapshot(now)._replace(memory=None)
            memory = chosen.decide(afresh).memory
            assert isinstance(memory, Memory)
            places = memory.places
            found.append(sorted(places, key=lambda name: places[name].score))

    engine = SimulatedEngine(jobs, TokenModel(ScalingModel(), StageTimes()))
    cluster = Cluster.grid(1, len(jobs) + 1)
    Simulation(Scheduler(chosen, cluster), engine, observers=(watch,)).run(until=400.0)
    latest = [made.id for made in reversed(jobs)]
    assert found[-1] == latest


# -- GPUs and CPU slots ---------------------------------------------------------------------------


def mixed(jobs: list[JobSpec], cluster: Cluster = MIXED) -> tuple[dict[str, float], list[str]]:
    """When jobs end, and every set of nodes that a job was given."""
    model = TokenModel(WorkersModel(ScalingModel.on(cluster), cluster), StageTimes())
    chosen = AITurbo(placement("consolidate"), model, every_s=50.0, restart_s=0.0)
    ends: dict[str, float] = {}
    given: list[str] = []

    def watch(now, events, actions, scheduler):
        ends.update({event.job: now for event in events if isinstance(event, JobFinished)})
        for action in actions:
            allocation = getattr(action, "allocation", None)
            if allocation is not None:
                names = "".join(device.node for device in allocation.devices)
                given.append(f"{action.job} {names}")

    engine = SimulatedEngine(jobs, model)
    Simulation(Scheduler(chosen, cluster), engine, observers=(watch,)).run(until=1e6)
    return ends, given


def named(name: str, model: str, size: int, **words: float) -> JobSpec:
    made: JobSpec = elastic(name, 1, 2, 4, 8, 12, asked=size, **words)
    return replace(made, profile=Profile(size=size, model=model))


def test_jobs_without_use_for_gpus_leave_them_alone():
    ends, given = mixed([named("a", "cpu-predictable-1", 4, length_s=30)])
    assert given == ["a cccccccc"]
    assert ends == {"a": pytest.approx(15.0)}


def test_idle_slots_are_lent_where_they_help_and_called_back_for_those_that_need_them():
    """1. In the full round a gets slots beside its GPUs. 2. b, with no use for a GPU, takes all."""
    family = next(f"predictable-{n}" for n in range(50) if _gain(f"predictable-{n}") > 1.2)
    jobs = [named("a", family, 4, length_s=1000), job("b", size=8, length_s=10, at=120)]
    jobs[1] = replace(jobs[1], profile=Profile(size=8, model="cpu-x"))
    ends, given = mixed(jobs)
    assert any(line.startswith("a gggg") and "c" in line.split()[1] for line in given)
    assert "b cccccccc" in given
    assert ends["b"] == pytest.approx(130.0)
    assert ends["a"] < 1000.0


def test_gpu_jobs_larger_than_all_gpus_never_fit_beside_many_slots():
    chosen = policy()
    assert chosen.never_fits(job("a", size=8), MIXED) is not None
    slots = replace(job("b", size=8), profile=Profile(size=8, model="cpu-x"))
    assert chosen.never_fits(slots, MIXED) is None


def _gain(family: str) -> float:
    model = WorkersModel(ScalingModel.on(MIXED), MIXED)
    spec = named("a", family, 4)
    return model.mixed(spec, Count(4, 8)) / model.alone(spec, 4)
