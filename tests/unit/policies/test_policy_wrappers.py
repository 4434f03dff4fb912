"""What each wrapper does to a policy, in small stories on nodes of four devices."""

from dataclasses import replace

import pytest

from tests.unit.stories import Story, play
from treadle.core.cluster import Cluster, Device
from treadle.core.errors import InvalidInputError
from treadle.core.events import JobSubmitted
from treadle.core.job import JobSpec
from treadle.core.ports import Policy
from treadle.core.reasons import Reason
from treadle.core.scheduler import Scheduler
from treadle.core.snapshot import Schedule, Snapshot
from treadle.policies import registry
from treadle.policies.base.placement import placement
from treadle.policies.wrappers.wrapper import Note, Remembering
from treadle.testing.builders import job, policy

# Three devices of each node are held, so that two are free and apart.
SCATTERED = [job("a", size=3, length_s=1000.0), job("b", size=3, length_s=400.0)]


def started(
    text: str, jobs: list[JobSpec], cluster: str = "2x4", place: str = "count"
) -> list[str]:
    return [line for line in play(text, jobs, cluster, place=place) if " start " in line]


def why(text: str, jobs: list[JobSpec], name: str, place: str = "count") -> Reason:
    scheduler = Scheduler(policy(text, place=place), Cluster.grid(2, 4))
    scheduler.step([JobSubmitted(spec) for spec in jobs], 0.0)
    return scheduler.why(name, 0.0)


# -- locality -----------------------------------------------------------------------------------


def test_a_job_waits_for_one_node_for_a_share_of_its_run_time() -> None:
    """1. c would cross nodes at 0 s, and waits up to 100 s for something better.
    2. At 100 s it takes any free devices.
    """
    jobs = [*SCATTERED, job("c", size=2, length_s=1000.0)]
    assert started("backfill", jobs)[-1] == "0 start c n0:3 n1:3"
    assert started("backfill+locality", jobs)[-1] == "100 start c n0:3 n1:3"
    assert started("backfill+locality?share=0.5", jobs)[-1] == "400 start c n1:0,1"


def test_what_a_patient_job_leaves_is_had_by_those_behind_it() -> None:
    jobs = [*SCATTERED, job("c", size=2, length_s=1000.0), job("d", length_s=10.0)]
    assert started("backfill+locality", jobs)[-2:] == ["0 start d n0:3", "100 start c n0:3 n1:3"]
    assert started("fifo+locality", jobs)[-2:] == ["100 start c n0:3 n1:3", "400 start d n1:0"]


def test_a_placement_that_never_splits_is_overruled_when_patience_ends() -> None:
    jobs = [*SCATTERED, job("c", size=2, length_s=1000.0)]
    assert started("backfill", jobs, place="consolidate")[-1] == "400 start c n1:0,1"
    assert started("backfill+locality", jobs, place="consolidate")[-1] == "100 start c n0:3 n1:3"


def test_the_wait_for_locality_is_explained() -> None:
    jobs = [*SCATTERED, job("c", size=2, length_s=1000.0)]
    found = why("backfill+locality", jobs, "c")
    assert found == Reason("locality", {"asked": 2, "nodes": 2, "fewest": 1, "in_s": 100.0})
    assert why("backfill+locality", jobs, "a") == Reason("starting", {"size": 3})


# -- overtaking ---------------------------------------------------------------------------------

BLOCKED = [
    job("a", size=3, length_s=100.0),
    job("big", size=4, length_s=10.0, at=1.0),
    job("short", length_s=50.0, at=2.0),
    job("long", length_s=500.0, at=3.0),
]


def test_only_jobs_that_end_in_time_overtake() -> None:
    """big can start when a ends, at 100 s; long would hold a device until 503 s."""
    assert started("backfill", BLOCKED, "1x4")[1:] == [
        "2 start short n0:3",
        "52 start long n0:3",
        "552 start big n0:0,1,2,3",
    ]
    assert started("backfill+overtaking", BLOCKED, "1x4")[1:] == [
        "2 start short n0:3",
        "100 start big n0:0,1,2,3",
        "110 start long n0:0",
    ]


def test_why_a_job_may_not_overtake_is_said() -> None:
    story = Story("backfill+overtaking", "1x4")
    story.tell(0.0, *(JobSubmitted(replace(spec, submit_at=0.0)) for spec in BLOCKED[:2]))
    story.runs(0.0, "a")
    story.tell(0.0, JobSubmitted(replace(BLOCKED[3], submit_at=0.0)))
    reason = story.scheduler.why("long", 0.0)
    assert reason == Reason("overtaking", {"first_job": "big", "takes_s": 500.0, "in_s": 100.0})


# -- dedicated ----------------------------------------------------------------------------------


def test_no_job_joins_a_large_one_on_its_node() -> None:
    jobs = [job("big", size=3), job("a"), job("b", size=2)]
    assert started("backfill", jobs) == [
        "0 start big n0:0,1,2",
        "0 start a n0:3",
        "0 start b n1:0,1",
    ]
    assert started("backfill+dedicated?from=3", jobs) == [
        "0 start big n0:0,1,2",
        "0 start a n1:0",
        "0 start b n1:1,2",
    ]


def test_a_large_job_is_given_an_empty_node_or_waits_for_one() -> None:
    jobs = [job("a"), job("big", size=3), job("late", size=3, at=1.0)]
    assert started("backfill+dedicated?from=3", jobs) == [
        "0 start a n0:0",
        "0 start big n1:0,1,2",
        "100 start late n0:0,1,2",
    ]


def test_why_a_job_waits_for_an_empty_node_is_said() -> None:
    jobs = [job("a"), job("b", size=3), job("c", size=3)]
    numbers = {"asked": 3, "free": 4, "usable": 3, "large": 3}
    assert why("backfill+dedicated?from=3", jobs, "c") == Reason("dedicated", numbers)


# -- defrag -------------------------------------------------------------------------------------

APART = [
    job("a", size=2, length_s=1000.0),
    job("b", size=3, length_s=50.0),
    job("c", size=1, length_s=1000.0),
    job("d", size=1, length_s=1000.0),
    job("big", size=4, length_s=10.0, at=60.0),
]


def test_a_small_job_moves_out_of_the_way() -> None:
    """1. a and d are on n0, b and c on n1; b ends, so five devices are free, but not four together.
    2. c moves beside a and d, and big has n1 for itself.
    """
    found = play("backfill+defrag", APART, "2x4")
    assert "60 change c n0:3" in found
    assert "60 start big n1:0,1,2,3" in found
    assert "1000 start big n0:0,1,2,3" in play("backfill", APART, "2x4")


def test_moves_are_paid_from_a_budget_and_no_job_moves_twice_in_a_row() -> None:
    assert not any("change" in line for line in play("backfill+defrag?budget=0", APART, "2x4"))
    assert not any("change" in line for line in play("backfill+defrag?small=0", APART, "2x4"))
    more = [*APART, job("big2", size=4, length_s=10.0, at=3000.0)]
    found = play("backfill+defrag?budget=1", more, "2x4")
    assert sum("change" in line for line in found) == 1


# -- try-small ----------------------------------------------------------------------------------


def test_a_job_is_tried_on_one_device_first() -> None:
    """1. a runs on one device for 20 s, which is five seconds of its work on four.
    2. It is given all four and ends 95 s later.
    """
    jobs = [replace(job("a", size=4), trial=True)]
    assert play("backfill+try-small?seconds=20", jobs, "2x4") == [
        "0 start a n0:0",
        "20 change a n0:0,1,2,3",
        "115 finish a",
    ]


def test_trials_come_first_and_jobs_that_passed_wait_for_room() -> None:
    """Two are tried at a time. While c is tried, a and b find no four devices and let go."""
    jobs = [replace(job(name, size=4), trial=True) for name in "abc"]
    assert play("fifo+try-small?seconds=20", jobs, "1x4")[:7] == [
        "0 start a n0:0",
        "0 start b n0:1",
        "20 stop a",
        "20 stop b",
        "20 start c n0:0",
        "40 stop c",
        "40 start a n0:0,1,2,3",
    ]


def test_a_trial_is_explained() -> None:
    jobs = [replace(job(name, size=4), trial=True) for name in "ab"]
    text = "backfill+try-small?devices=1"
    assert why(text, jobs, "a") == Reason("trial", {"asked": 4, "in_s": 300.0})
    queued = Reason("trial-queue", {"asked": 4, "trials": 1, "most": 1, "free": 7})
    assert why(text, jobs, "b") == queued


# -- all of them --------------------------------------------------------------------------------


def test_wrappers_are_put_on_from_the_inside_out() -> None:
    made = registry.policy("backfill+locality?share=1e+3+defrag", placement("count"), None)  # type: ignore[arg-type]
    assert type(made).__name__ == "Defrag"
    assert isinstance(made, Remembering)
    assert type(made.inner).__name__ == "Locality"
    assert registry.wrappers_in("afs?packed=on+locality?share=0.1+defrag") == ["locality", "defrag"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("fifo+localty", "there is no wrapper 'localty'; did you mean locality?"),
        ("fifo+locality?shares=2", "wrapper locality has no parameter 'shares'"),
        ("fifo+dedicated?from=x", "wrapper dedicated parameter from takes a whole number"),
        ("defrag", "defrag is a wrapper and goes behind a policy's name, as in fifo+defrag"),
        ("fifo+defrag+defrag", "policy fifo is wrapped in defrag twice; once is enough"),
    ],
)
def test_a_mistake_is_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        policy(text)
    assert str(caught.value).startswith(sentence)


def test_every_wrapper_says_what_it_does_in_one_line() -> None:
    assert registry.names(registry.WRAPPER) == list(registry.WRAPPERS)
    for name in registry.names(registry.WRAPPER):
        line = registry.first_line(registry.factory(name, registry.WRAPPER))
        assert 20 < len(line) <= 90, name


def test_an_inner_policys_memory_survives_a_wrapper_that_remembers() -> None:
    class Counting(Policy):
        def decide(self, snapshot: Snapshot) -> Schedule:
            seen.append(snapshot.memory)
            return Schedule(memory=len(seen))

    seen: list[object] = []
    around = registry.factory("defrag", registry.WRAPPER)(Counting(), placement("count"), None)
    story = Story(around, "1x4")
    story.tell(0.0, JobSubmitted(job("a")))
    story.tell(1.0, JobSubmitted(job("b")))
    assert seen == [None, 1]
    assert story.scheduler.snapshot(1.0).memory == Note((), 2)


def test_a_device_that_is_withheld_is_not_free_even_on_the_emptied_cluster() -> None:
    free = Scheduler(policy("fifo"), Cluster.grid(2, 2)).tenancy.free
    kept = free.withholding([Device("n0", 1)])
    assert list(kept) == [Device("n0", 0), Device("n1", 0), Device("n1", 1)]
    assert list(kept.emptied()) == list(kept)
    assert (kept.total, free.total) == (3, 4)
