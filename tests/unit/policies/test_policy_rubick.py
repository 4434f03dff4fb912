"""Rubick: curves, promises, and moves that are made whole or not at all."""

from dataclasses import replace

import pytest

from tests.unit.stories import Story, play
from treadle.core.actions import Change, Start, Stop
from treadle.core.cluster import Cluster, Node
from treadle.core.events import JobFinished, JobStopped, JobSubmitted, JobUpdated
from treadle.core.job import JobSpec, Profile
from treadle.core.plan import DATA_PARALLEL, Plan
from treadle.core.scheduler import Scheduler
from treadle.models.plans.layouts import layouts
from treadle.models.plans.planned import offering, standard
from treadle.models.plans.sensitivity import Curves, _steps
from treadle.models.plans.space import dense
from treadle.models.scaling import ScalingModel
from treadle.policies.rubick.holdings import Holdings
from treadle.testing.builders import job, policy

PLANNER = standard()


def planned(
    identity: str,
    model: str,
    asked: int,
    plan: Plan,
    *,
    steps: float = 1e6,
    guaranteed: bool = False,
    tenant: str = "",
) -> JobSpec:
    """A job of a model of the catalogue on servers of eight devices."""
    spec = JobSpec(
        identity,
        steps,
        sizes=(asked,),
        profile=Profile(size=asked, model=model),
        plans=(plan, DATA_PARALLEL),
        guaranteed=guaranteed,
        tenant=tenant,
    )
    return offering(spec, PLANNER, 64, 8)


def curves(**options: bool) -> Curves:
    made = Curves(ScalingModel(), **options)
    made.on(Cluster.grid(8, 8))
    return made


def held(story: Story) -> dict[str, int]:
    return {row.id: row.size for row in story.scheduler.jobs.values()}


def story(text: str = "rubick?gate=0", cluster: str = "1x8") -> Story:
    return Story(policy(text, belief=ScalingModel()), cluster)


OFFLOAD4 = Plan(data=4, shard="gradients", offload=True)
OFFLOAD = Plan(data=8, shard="gradients", offload=True)


class TestCurves:
    def test_speeds_are_over_what_was_asked_for(self):
        spec = planned("a", "bert", 8, Plan(data=8))
        by_size = dict(curves().of(spec).sizes)
        assert by_size[8] >= 1.0
        assert list(by_size.values()) == sorted(by_size.values())

    def test_a_size_that_is_not_faster_than_a_smaller_one_is_left_out(self):
        spec = planned("a", "gpt2", 4, Plan(data=4))
        assert 5 in spec.sizes  # It runs there, split in five, slower than on four.
        assert 5 not in dict(curves().of(spec).sizes)

    def test_every_step_brings_less_for_a_device_than_the_one_before(self):
        for model in PLANNER.types:
            asked = 24 if model.startswith("llama30") else 8
            own = PLANNER.best(model, dense(asked))
            assert own is not None
            slopes = [s.slope for s in curves().of(planned("a", model, asked, own.plan)).steps]
            assert slopes == sorted(slopes, reverse=True)

    def test_steps_jump_over_sizes_under_the_hull(self):
        found = [(1, 1.0), (2, 1.1), (4, 3.0), (8, 4.0)]
        assert [step.size for step in _steps(found, 0.0)] == [1, 4, 8]
        assert [step.size for step in _steps(found, 0.5)] == [1, 4]

    def test_the_minimum_is_the_fewest_devices_that_keep_the_promise(self):
        slow = planned("a", "bert", 8, OFFLOAD)
        curve = curves().of(slow)
        assert curve.minimum < 8
        assert dict(curve.sizes)[curve.minimum] >= 1.0
        best = PLANNER.best("bert", (8,))
        assert best is not None
        assert curves().of(planned("b", "bert", 8, best.plan)).minimum == 8

    def test_without_plans_a_job_keeps_its_users_kind(self):
        spec = planned("a", "bert", 8, OFFLOAD)
        made = curves(plans=False)
        for size, _ in made.of(spec).sizes:
            speed = made.speed(spec, dense(size))
            assert speed is not None
            assert speed.plan.offload

    def test_only_jobs_that_do_not_split_are_elastic_under_sia(self):
        made = curves(plans=False, pure=True)
        split = planned("a", "gpt2", 5, Plan(tensor=5, data=1))
        assert [size for size, _ in made.of(split).sizes] == [5]
        assert len(made.of(planned("b", "gpt2", 4, Plan(data=4))).sizes) > 1

    def test_jobs_of_unknown_models_go_by_the_belief(self):
        spec = job("a", size=4, sizes=(1, 2, 4))
        assert curves().of(spec).sizes == ((1, 0.25), (2, 0.5), (4, 1.0))
        assert curves().of(spec).minimum == 4


class TestBooks:
    def test_going_back_restores_everything(self):
        told = story("backfill", "2x4")
        told.tell(0.0, JobSubmitted(job("a", size=3)), JobSubmitted(job("b", size=2)))
        holdings = Holdings(told.scheduler.snapshot(0.0))
        before = (
            dict(holdings.free),
            dict(holdings.held),
            {n: dict(o) for n, o in holdings.on.items()},
        )
        mark = holdings.mark()
        holdings.set("a", {"n0": 1}, DATA_PARALLEL)
        holdings.set("b", {}, None)
        holdings.set("a", {"n0": 2, "n1": 4}, DATA_PARALLEL)
        assert holdings.free["n1"] == 0
        holdings.back(mark)
        assert before == (holdings.free, holdings.held, holdings.on)
        assert holdings.allocations() == {}

    def test_a_job_that_shrinks_keeps_devices_and_others_take_the_rest(self):
        told = story("backfill", "1x4")
        told.tell(0.0, JobSubmitted(job("a", size=4, sizes=(2, 4))), JobSubmitted(job("b", size=2)))
        holdings = Holdings(told.scheduler.snapshot(0.0))
        holdings.set("a", {"n0": 2}, DATA_PARALLEL)
        holdings.set("b", {"n0": 2}, DATA_PARALLEL)
        found = holdings.allocations()
        assert {i: [d.number for d in a.devices] for i, a in found.items() if a} == {
            "a": [0, 1],
            "b": [2, 3],
        }

    def test_layouts_prefer_one_node_then_equal_parts_then_anything(self):
        assert next(layouts(4, {"x": 8, "y": 4}, {})) == {"y": 4}
        assert next(layouts(4, {"x": 8, "y": 4}, {"x": 2})) == {"x": 4}
        assert next(layouts(6, {"x": 4, "y": 3, "z": 3}, {})) == {"y": 3, "z": 3}
        assert next(layouts(5, {"x": 4, "y": 3}, {})) == {"x": 4, "y": 1}
        assert not list(layouts(8, {"x": 4, "y": 3}, {}))

    def test_uneven_layouts_come_in_whole_blocks_first(self):
        found = list(layouts(12, {"x": 6, "y": 6, "z": 4}, {}))
        assert {"x": 4, "y": 4, "z": 4} in found
        assert found[-1] == {"x": 6, "y": 6}
        assert all(sum(counts.values()) == 12 for counts in found)

    def test_room_is_what_is_free_or_ones_own_or_spared(self):
        told = story("backfill", "3x4")
        told.tell(0.0, JobSubmitted(job("a", size=3)), JobSubmitted(job("b", size=4)))
        holdings = Holdings(told.scheduler.snapshot(0.0))
        assert holdings.room({}) == {"n0": 1, "n2": 4}
        assert holdings.room({"n0": 3}) == {"n0": 4, "n2": 4}
        assert holdings.room({}, {"b": 2}) == {"n0": 1, "n1": 2, "n2": 4}


class TestDecisions:
    def test_a_job_alone_grows_to_the_knee_under_the_best_plan(self):
        told = story()
        orders = told.tell(0.0, JobSubmitted(planned("a", "roberta", 1, Plan(data=1))))
        assert isinstance(orders[0], Start)
        assert orders[0].allocation.size == 8
        best = PLANNER.best("roberta", (8,))
        assert best is not None
        assert orders[0].allocation.plan == best.plan

    @pytest.mark.parametrize(("steps", "better"), [(9_010.0, False), (1e6, True)])
    def test_a_job_whose_plans_are_known_once_it_runs_changes_if_that_pays(self, steps, better):
        known = replace(planned("a", "t5", 8, Plan(data=8), steps=steps), sizes=(8,))
        known = replace(known, profile=replace(known.profile, restart_s=60.0))
        told = story("rubick")
        told.tell(0.0, JobSubmitted(replace(known, plans=(DATA_PARALLEL,))))
        told.runs(0.0, "a")
        assert told.tell(1.0, JobUpdated(known)) == [], "its gate is closed"
        orders = told.tell(9_000.0)
        best = PLANNER.best("t5", (8,))
        assert best is not None
        changed = [order.allocation.plan for order in orders if isinstance(order, Change)]
        assert changed == [best.plan] * better

    def test_a_newcomer_takes_devices_from_jobs_that_gain_less_from_them(self):
        told = story()
        told.tell(0.0, JobSubmitted(planned("a", "bert", 8, Plan(data=8))))
        told.runs(0.0, "a")
        orders = told.tell(500.0, JobSubmitted(planned("b", "bert", 8, Plan(data=8))))
        assert held(told) == {"a": 4, "b": 4}
        changed = next(order for order in orders if isinstance(order, Change))
        best = PLANNER.best("bert", (held(told)["a"],))
        assert best is not None
        assert changed.allocation.plan == best.plan

    def test_a_promise_is_kept_whatever_arrives(self):
        told = story()
        told.tell(0.0, JobSubmitted(planned("a", "bert", 8, OFFLOAD, guaranteed=True)))
        least = curves().of(planned("a", "bert", 8, OFFLOAD)).minimum
        for number in range(20):
            spec = planned(f"b{number}", "bert", 1, Plan(data=1))
            told.tell(100.0 * number, JobSubmitted(spec))
            assert held(told)["a"] >= least

    def test_a_guaranteed_job_stops_best_effort_ones(self):
        told = story()
        told.tell(0.0, *[JobSubmitted(planned(f"b{n}", "vit", 1, Plan(data=1))) for n in range(8)])
        assert min(held(told).values()) == 1
        best = PLANNER.best("bert", (8,))
        assert best is not None
        orders = told.tell(9.0, JobSubmitted(planned("a", "bert", 8, best.plan, guaranteed=True)))
        assert held(told)["a"] == 8
        assert sum(isinstance(order, Stop) for order in orders) == 8

    def test_a_job_that_cannot_be_placed_leaves_the_others_alone(self):
        told = story()
        best = PLANNER.best("bert", (8,))
        assert best is not None
        told.tell(0.0, JobSubmitted(planned("a", "bert", 8, best.plan, guaranteed=True)))
        told.runs(0.0, "a")
        assert told.tell(900.0, JobSubmitted(planned("b", "vit", 1, Plan(data=1)))) == []
        assert held(told) == {"a": 8, "b": 0}

    def test_a_quota_limits_promises(self):
        """x1 is beyond its tenant's quota: it has what is left over, until z takes it."""
        told = story("rubick?gate=0&quotas=x:8/y:2/z:8", "2x8")
        best = PLANNER.best("bert", (8,))
        assert best is not None
        jobs = [
            planned(f"x{n}", "bert", 8, best.plan, guaranteed=True, tenant="x") for n in range(2)
        ]
        told.tell(0.0, *map(JobSubmitted, jobs))
        assert held(told) == {"x0": 8, "x1": 8}
        told.tell(
            1.0, JobSubmitted(planned("y0", "bert", 8, best.plan, guaranteed=True, tenant="y"))
        )
        assert "y0" in told.scheduler.unfit
        told.tell(
            2.0, JobSubmitted(planned("z0", "bert", 8, best.plan, guaranteed=True, tenant="z"))
        )
        assert held(told) == {"x0": 8, "x1": 0, "y0": 0, "z0": 8}
        told.tell(2.0, JobStopped("x1", told.scheduler.jobs["x1"].action, 0.0))
        told.tell(3.0, JobFinished("x0", told.scheduler.jobs["x0"].action))
        assert held(told)["x1"] >= 8

    def test_s10_a_guarantee_never_makes_a_job_wait_longer_than_a_best_effort_one(self):
        """12 of 16 devices are taken. Both others asked for 8 and can use the 4 that are left: the
        guaranteed one has them first, and all 8 once its promise can be kept.
        """
        long = job("long", size=12, length_s=200.0)
        other = job("best-effort", size=8, sizes=(1, 2, 4, 8), length_s=300.0, at=1.0)
        jobs = [long, replace(other, guaranteed=False), replace(other, id="guaranteed")]
        lines = play("rubick?gate=0&restart_s=5", jobs, "1x16", until=200.0)
        assert [line.rpartition(" ")[0] for line in lines] == [
            "0 start long",
            "1 start guaranteed",
            "200 finish",
            "200 change guaranteed",
            "200 start best-effort",
        ]

    def test_promised_jobs_make_way_for_one_that_needs_a_whole_node(self):
        told = story("rubick?gate=0", "2x8")
        eight, one = PLANNER.best("t5", (8,)), PLANNER.best("bert", (1,))
        assert eight is not None
        assert one is not None
        for number in range(2):  # One on each node.
            filler = planned(f"f{number}", "bert", 8, Plan(data=8), guaranteed=True)
            told.tell(0.0, JobSubmitted(filler))
        assert held(told) == {"f0": 8, "f1": 8}
        for number in range(2):
            name = f"f{number}"
            small = planned(f"s{number}", "bert", 1, one.plan, guaranteed=True)
            told.tell(1.0 + number, JobSubmitted(small))
            told.tell(1.5 + number, JobFinished(name, told.scheduler.jobs[name].action))
            told.runs(1.5 + number, small.id)
        told.tell(500.0, JobSubmitted(planned("big", "t5", 8, eight.plan, guaranteed=True)))
        big = told.scheduler.jobs["big"].allocation
        assert big is not None
        assert len(big.nodes()) == 1
        assert all(size >= 1 for size in held(told).values())

    @pytest.mark.parametrize(
        ("model", "asked", "plan", "cluster"),
        [
            ("bert", 6, Plan(data=6, recompute=True), "8x8"),  # 4 are nearly as fast, 6 exactly
            ("t5", 3, Plan(data=3, recompute=True), "2x8"),
            ("llama30", 8, Plan(8, 1, 1), "4x4"),  # no group of eight lies inside a node
            ("gpt2", 5, Plan(5, 1, 1), "16x1"),
        ],
    )
    def test_a_guaranteed_job_runs_even_where_its_promise_cannot_be_kept(
        self, model, asked, plan, cluster
    ):
        told = story("rubick", cluster)
        told.tell(0.0, JobSubmitted(planned("a", model, asked, plan, guaranteed=True)))
        assert held(told)["a"]

    def test_plans_keep_to_the_memory_that_nodes_say_they_have(self):
        hosted = planned("a", "llama7", 1, Plan(data=1, shard="gradients", offload=True))
        for memory_gib, runs in ((0.0, True), (64.0, False), (512.0, True)):
            told = story("rubick?promises=off", "1x1")
            node = Node("n0", 1, memory_gib=memory_gib)
            told.scheduler = Scheduler(told.scheduler.policy, Cluster((node,)))
            told.tell(0.0, JobSubmitted(hosted))
            assert bool(held(told)["a"]) == runs

    def test_why_names_who_has_the_devices(self):
        told = story("rubick?quotas=x:8", "1x8")
        best = PLANNER.best("bert", (8,))
        assert best is not None
        jobs = [
            planned(f"x{n}", "bert", 8, best.plan, guaranteed=True, tenant="x") for n in range(2)
        ]
        told.tell(0.0, *map(JobSubmitted, jobs))
        assert told.scheduler.why("x1", 1.0).numbers["holders"] == ("x0",)
        told.tell(1.0, JobSubmitted(planned("y", "vit", 1, Plan(data=1))))
        assert told.scheduler.why("y", 2.0).code == "devices"

    def test_a_job_whose_changes_were_measured_to_cost_little_grows_soon(self):
        """1. Two share eight devices. 2. One ends: the other has all, and is asked for soon."""
        told = story("rubick?gate=0.9")
        known = planned("a", "bert", 8, Plan(data=8))
        known = replace(known, profile=replace(known.profile, restart_s=0.5))
        told.tell(0.0, JobSubmitted(known))
        told.runs(0.0, "a")
        told.tell(100.0, JobSubmitted(planned("b", "bert", 8, Plan(data=8))))
        told.runs(100.0, "a", "b")
        told.tell(101.0, JobFinished("b", told.scheduler.jobs["b"].action))
        assert held(told) == {"a": 8}

    @pytest.mark.parametrize("begun_at", [0.1 * 3**power for power in range(1, 13)])
    def test_a_job_that_was_left_alone_may_change_at_the_moment_it_said(self, begun_at: float):
        """Whatever the rounding of the time between: an answer must hold for a while."""
        told = story("rubick?gate=0.9")
        known = planned("a", "bert", 8, Plan(data=8))
        known = replace(known, profile=replace(known.profile, restart_s=0.37))
        told.tell(begun_at, JobSubmitted(known))
        told.runs(begun_at, "a")
        told.scheduler.decide(begun_at + 1.0)
        gate_at = told.scheduler.wake_at
        assert gate_at == pytest.approx(begun_at + 0.37 / 0.1)
        told.scheduler.decide(gate_at)
        assert told.scheduler.wake_at > gate_at

    def test_a_gate_leaves_jobs_alone_that_lost_too_much_time(self):
        gated, free = story("rubick?gate=0.9"), story("rubick?gate=0")
        for told in (gated, free):
            told.tell(0.0, JobSubmitted(planned("a", "bert", 8, Plan(data=8))))
            told.runs(0.0, "a")
            told.tell(100.0, JobSubmitted(planned("b", "bert", 8, Plan(data=8))))
            told.runs(100.0, "a", "b")
            assert held(told) == {"a": 4, "b": 4}
            told.tell(200.0, JobFinished("b", told.scheduler.jobs["b"].action))
        assert held(gated) == {"a": 4}
        assert held(free) == {"a": 8}

    def test_without_resources_no_job_gets_another_size(self):
        told = story("rubick-e")
        spec = planned("a", "bert", 4, OFFLOAD4)
        orders = told.tell(0.0, JobSubmitted(spec))
        assert isinstance(orders[0], Start)
        assert orders[0].allocation.size == 4
        assert not orders[0].allocation.plan.offload
        plain = story("rubick-n").tell(0.0, JobSubmitted(spec))[0]
        assert isinstance(plain, Start)
        assert (plain.allocation.size, plain.allocation.plan) == (4, OFFLOAD4)

    def test_a_job_that_no_cluster_holds_is_set_aside(self):
        told = story(cluster="1x2")
        told.tell(0.0, JobSubmitted(planned("a", "llama30", 48, Plan(4, 4, 3))))
        assert told.scheduler.unfit["a"] == (
            "it runs on 4 devices or more and finds no room for them even on the empty cluster "
            "of 2 devices"
        )


def test_a_cluster_that_grows_is_seen():
    made = policy("rubick", belief=ScalingModel())
    spec = planned("a", "llama30", 48, Plan(4, 4, 3))
    assert made.never_fits(spec, Cluster.grid(1, 2)) is not None
    assert made.never_fits(spec, Cluster.grid(8, 8)) is None
