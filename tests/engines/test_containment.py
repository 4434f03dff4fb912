"""Nothing of an attempt outlives it: what the group of its processes holds, kills and counts."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.engines.bench import Story, on, telling
from tests.engines.groups import KINDS, containment, unified

from treadle.core.actions import Start, Stop
from treadle.core.events import JobFailed, JobFinished, JobStarted, JobStopped
from treadle.engines.node import processes
from treadle.engines.node.cgroup import Containment, ControllerCgroups, Group
from treadle.engines.node.processes import ProcessId
from treadle.engines.node.recorded_processes import alive
from treadle.engines.node.scope import NO_LIMITS, Limits, scope_of

# A daemon by the book that also clears its environment, so that no tag is left. It goes on writing.
ESCAPES = """
import os
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        work = 'echo $$; while :; do echo x >> written; sleep 0.02; done'
        os.execve('/bin/sh', ['sh', '-c', work], {'PATH': os.environ['PATH']})
    os._exit(0)
os.wait()
import time
time.sleep(600)
"""


@pytest.fixture(params=KINDS)
def contained(request: pytest.FixtureRequest) -> Iterator[Containment]:
    with containment(request.param) as found:
        yield found


def has_contained(bench: Story, pid: int, contained: Containment) -> bool:
    """Whether the group knows the process; at once, or at the next look of the supervisor."""
    if contained.kind != "processes only":
        return True
    record = bench.folder("a") / "processes.json"
    return record.exists() and pid in dict(json.loads(record.read_text()))


async def escapes(bench: Story, contained: Containment) -> tuple[ProcessId, ProcessId]:
    """A job whose daemon has no tag runs; the daemon, and the supervisor."""
    await bench.begin()
    bench.machine.groups.containment = contained
    bench.job("a", "python", "-c", ESCAPES)
    await bench.order(Start(0, "a", on(0)))
    await bench.event()
    await bench.until(lambda: bench.log("a").endswith("\n"))
    pid = int(bench.log("a"))
    await bench.until(lambda: has_contained(bench, pid, contained))
    return ProcessId(pid, processes.start_of(pid) or 0), bench.supervisor("a")


@telling()
async def test_a7_a_child_without_environment_does_not_outlive_a_killed_supervisor(
    bench: Story, contained: Containment
) -> None:
    """1. A daemon without our tag writes. 2. The supervisor is killed. 3. It ends, and so does the
    daemon: when the end is reported, which is when a retry may begin, nothing writes any more."""
    escaped, supervisor = await escapes(bench, contained)
    processes.send(supervisor, signal.SIGKILL)
    assert await bench.event() == JobFailed("a", 0, 0.0)
    assert alive([escaped]) == []
    assert [ended.how for ended in bench.ends] == ["lost"]


@telling()
async def test_a7_a_restarted_engine_clears_the_group_before_it_reports_the_end(
    bench: Story, contained: Containment
) -> None:
    escaped, supervisor = await escapes(bench, contained)
    await bench.engine.close()
    processes.send(supervisor, signal.SIGKILL)
    await bench.until(lambda: not alive([supervisor]))
    # A new engine knows the group from the attempt's folder, whatever groups it makes itself.
    bench.fresh_engine()
    await bench.engine.adopt([])
    await bench.until(lambda: not bench.folders.live())
    assert alive([escaped]) == []


@telling()
async def test_every_process_of_an_attempt_is_in_its_group_and_the_group_is_removed(
    bench: Story, contained: Containment
) -> None:
    await bench.begin()
    bench.machine.groups.containment = contained
    bench.job("a", "sh", "-c", "cat /proc/self/cgroup; echo up; sleep 600 & exec sleep 600")
    await bench.order(Start(0, "a", on(0)))
    await bench.event()
    await bench.until(lambda: "up" in bench.log("a"))
    live = bench.live("a")
    await bench.until(lambda: len(live.scope.pids()) == 2)
    if contained.kind != "processes only":
        assert bench.log("a").count(f"/treadle-{live.tag}\n") >= 1
    await bench.order(Stop(1, "a"))
    assert await bench.event() == JobStopped("a", 1, 0.0)
    assert live.scope.pids() == []
    for folder in folders_of(live.scope.document()):
        assert not folder.exists()


def folders_of(document: dict[str, object]) -> list[Path]:
    found = document.get("folders", {"": document.get("folder", document.get("record"))})
    assert isinstance(found, dict)
    return [Path(str(folder)) for folder in found.values()]


class Vanishing(Containment):
    """Groups that are gone before a rank can enter them."""

    def make(self, tag: str, folder: Path, limits: Limits = NO_LIMITS) -> Group:
        group = super().make(tag, folder, limits)
        group.scope.remove()
        return group


@telling()
async def test_a_rank_that_cannot_enter_its_group_is_not_launched_and_the_machine_is_to_blame(
    bench: Story,
) -> None:
    await bench.begin()
    with unified() as cgroups:
        bench.machine.groups.containment = Vanishing(cgroups)
        bench.job("a", "true")
        await bench.order(Start(0, "a", on(0)))
        await bench.until(lambda: bench.ends)
        (ended,) = bench.ends
        assert ended.how == "machine-error"
        assert ended.error.startswith("the rank could not enter the group of its attempt: ")


EATS = "b = bytearray(1)\nfor _ in range(200): b += bytes(1 << 20)\nprint('ate')"


@telling()
async def test_a_job_that_uses_more_than_its_memory_is_killed_and_says_so(bench: Story) -> None:
    await bench.begin()
    with containment("cgroup v1") as contained:
        bench.machine.groups.containment = contained
        bench.job("a", "python", "-c", EATS, memory_gib=0.0625)
        await bench.order(Start(0, "a", on(0)))
        assert isinstance(await bench.ended(), JobFailed)
        (ended,) = bench.ends
        assert (ended.how, ended.code) == ("oom-killed", 137)
        assert ended.error == "it used more than its --memory of 64 MiB (peak 64 MiB)"
        assert ended.memory_peak_gib == 0.0625


@telling()
async def test_a_job_within_its_memory_ends_well_and_its_peak_is_known(bench: Story) -> None:
    await bench.begin()
    with containment("cgroup v1") as contained:
        bench.machine.groups.containment = contained
        bench.job("a", "python", "-c", EATS, memory_gib=1.0, cpus=0.5)
        await bench.order(Start(0, "a", on(0)))
        assert await bench.event() == JobStarted("a", 0, 0.0, 1.0, attempt=1)
        assert await bench.event() == JobFinished("a", 0)
        (ended,) = bench.ends
        assert ended.memory_peak_gib is not None
        assert 200 / 1024 <= ended.memory_peak_gib <= 1.0


@telling()
async def test_a_child_that_is_killed_for_memory_is_counted_though_the_job_ends_well(
    bench: Story,
) -> None:
    await bench.begin()
    with containment("cgroup v1") as contained:
        bench.machine.groups.containment = contained
        bench.job("a", "sh", "-c", 'python -c "$0"; true', EATS, memory_gib=0.0625)
        await bench.order(Start(0, "a", on(0)))
        assert await bench.ended() == JobFinished("a", 0)
        (ended,) = bench.ends
        assert (ended.how, ended.memory_kills, ended.memory_peak_gib) == ("exited", 1, 0.0625)


@telling()
async def test_cores_are_a_quota_of_the_group(bench: Story) -> None:
    await bench.begin()
    with containment("cgroup v1") as contained:
        bench.machine.groups.containment = contained
        bench.job("a", "sleep", "600", cpus=1.5, memory_gib=0.5)
        await bench.order(Start(0, "a", on(0)))
        await bench.event()
        live = bench.live("a")
        folders = live.scope.document()["folders"]
        quota = Path(folders["cpu"], "cpu.cfs_quota_us").read_text()
        period = Path(folders["cpu"], "cpu.cfs_period_us").read_text()
        assert int(quota) / int(period) == 1.5
        assert int(Path(folders["memory"], "memory.limit_in_bytes").read_text()) == 2**29


@pytest.mark.parametrize("limits", [Limits(2**30, None), Limits(None, 1.0)])
def test_an_attempt_does_not_run_without_a_limit_that_is_promised(tmp_path: Path, limits: Limits):
    """The files of its limits are folders here, so that none can be written."""
    parents = {name: tmp_path / name for name in ("memory", "cpu")}
    for name, file in (("memory", "memory.limit_in_bytes"), ("cpu", "cpu.cfs_quota_us")):
        (parents[name] / "treadle-tag" / file).mkdir(parents=True)
    contained = Containment(ControllerCgroups(parents))
    contained.make("tag", tmp_path)  # It needs no limit.
    with pytest.raises(OSError, match=r"the limit of (memory|cpus) could not be set"):
        contained.make("tag", tmp_path, limits)


def test_an_attempt_does_not_run_without_a_group_that_would_limit_it(tmp_path: Path):
    contained = Containment(ControllerCgroups({"memory": tmp_path / "not" / "there"}))
    assert contained.make("tag", tmp_path).scope.kind == "processes only"
    with pytest.raises(OSError, match="the limit of memory could not be set"):
        contained.make("tag", tmp_path, Limits(2**30, 1.0))


def test_more_cores_than_the_group_above_has_are_those_of_the_group_above(tmp_path: Path):
    """The kernel refuses a larger quota, and the job would never be launched."""
    with containment("cgroup v1") as contained:
        outer = contained.make(f"outer-{os.getpid()}", tmp_path, Limits(None, 1.0)).scope
        cpu = Path(outer.document()["folders"]["cpu"])
        inner = Containment(ControllerCgroups({"cpu": cpu}))
        try:
            group = inner.make("tag", tmp_path, Limits(None, 64.0))
            assert group.enforced == {"cpus"}
            group.scope.remove()
        finally:
            outer.remove()


def test_limits_are_not_in_force_without_a_cgroup(tmp_path: Path):
    group = Containment(None).make("tag", tmp_path, Limits(2**30, 1.0))
    assert group.enforced == frozenset()
    assert Containment(None).limits == frozenset()
    assert Containment(None).kind == "processes only"


def test_a_group_is_found_again_from_what_was_written_down(contained: Containment, tmp_path: Path):
    scope = contained.make(f"again-{os.getpid()}", tmp_path).scope
    found = scope_of(json.loads(json.dumps(scope.document())))
    assert found.document() == scope.document()
    assert found.pids() == []
    found.remove()
    with pytest.raises(ValueError, match="is not the scope of an attempt"):
        scope_of({"kind": "cgroup v3"})
