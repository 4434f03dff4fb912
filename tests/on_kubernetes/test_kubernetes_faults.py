"""What dies or hangs on a real cluster, and what becomes of the jobs."""

import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.on_kubernetes.agents import write_kubeconfig
from tests.on_kubernetes.bench import KubernetesBench
from tests.on_kubernetes.reach import SLOTS, Cluster
from tests.waiting import awaited
from treadle.core.actions import Start, Stop
from treadle.core.attempt import How
from treadle.core.errors import InvalidInputError
from treadle.core.events import NodeDrained, NodeJoined, NodeLost
from treadle.core.launch import AttemptId
from treadle.core.machine import NodeOrder
from treadle.engines.fleet.port import Fencing
from treadle.testing.engine_bench import on

pytestmark = pytest.mark.engine
PODS = "/api/v1/namespaces/treadle/pods"
TEMPLATE = "/api/v1/namespaces/treadle/podtemplates/treadle-agent"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/treadle/leases/treadle"
PATIENT = Fencing(failover_s=300.0, margin_s=1.0)
WITHIN_S = 120.0


def told(
    shared: Path,
    cluster: Cluster,
    story: Callable[[KubernetesBench], Awaitable[None]],
    fencing: Fencing = PATIENT,
) -> None:
    async def run() -> None:
        bench = KubernetesBench(shared, cluster, fencing)
        try:
            await bench.engine.carry_out([])
            assert await awaited(lambda: all_there(bench))
            await asyncio.wait_for(story(bench), WITHIN_S)
        finally:
            await bench.clear_away()

    asyncio.run(run())


async def all_there(bench: KubernetesBench) -> bool:
    return {node.name for node in bench.engine.nodes()} == SLOTS.keys()


def agents() -> Iterator[int]:
    """The processes that are agents, on all nodes."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"treadle.engines.clusters.kubernetes.agent_pod" in words and b"agent" in words:
            yield int(process.name)


def epoch(cluster: Cluster) -> int:
    return int(json.loads(cluster.get(LEASE))["spec"]["leaseTransitions"])


def test_a_second_controller_is_refused_until_the_first_leaves(shared: Path, kubernetes: Cluster):
    async def story(bench: KubernetesBench) -> None:
        first = epoch(kubernetes)
        with pytest.raises(InvalidInputError, match="another Treadle"):
            await asyncio.to_thread(KubernetesBench, shared, kubernetes)
        assert epoch(kubernetes) == first
        await bench.engine.close()
        second = await asyncio.to_thread(KubernetesBench, shared, kubernetes)
        assert epoch(kubernetes) == first + 1
        await second.engine.close()

    told(shared, kubernetes, story)


def test_a_namespace_without_a_template_is_refused(shared: Path, kubernetes: Cluster):
    config = kubernetes.kubeconfig.read_text()
    elsewhere = kubernetes.folder / "elsewhere"
    elsewhere.write_text(
        config.replace("cluster: test", "cluster: test\n    namespace: default", 1)
    )
    with pytest.raises(InvalidInputError, match="PodTemplate treadle-agent"):
        KubernetesBench(shared, kubernetes, kubeconfig=elsewhere)


@pytest.mark.parametrize(
    ("field", "value", "word"),
    [("image", "treadle.test/absent:1", "Image"), ("command", ["/no/python3"], "/no/python3")],
)
def test_an_image_that_cannot_run_agents_is_said_and_its_node_comes_when_it_can(
    shared: Path, kubernetes: Cluster, field: str, value: object, word: str
):
    template = json.loads(kubernetes.get(TEMPLATE))
    wrong = json.loads(json.dumps(template))
    wrong["template"]["spec"]["containers"][0][field] = value

    def put(wanted: dict[str, Any]) -> None:
        wanted["metadata"].pop("resourceVersion", None)
        kubernetes.get(TEMPLATE, json.dumps(wanted).encode(), "PUT")
        kubernetes.get(f"{PODS}/treadle-agent-n2", verb="DELETE")

    async def story(bench: KubernetesBench) -> None:
        await bench.runs("long", on("n1", 0))
        put(wrong)
        try:
            assert await awaited(lambda: is_said(bench, "n2", word))
            assert not await all_there(bench)
        finally:
            put(template)
        assert await awaited(lambda: all_there(bench))
        assert not bench.ends("long")

    told(shared, kubernetes, story)


async def is_said(bench: KubernetesBench, node: str, word: str) -> bool:
    """Whether people read that of a node that is not used."""
    return any(each.name == node and word in each.because for each in bench.engine.view())


def test_a_quota_that_refuses_an_agent_is_said_until_it_is_gone(shared: Path, kubernetes: Cluster):
    quotas = "/api/v1/namespaces/treadle/resourcequotas"
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}}

    async def story(bench: KubernetesBench) -> None:
        hard = {"pods": "0"}
        kubernetes.create(quotas, {**quota, "spec": {"hard": hard}})
        # As the controller manager would.
        status = {**quota, "status": {"hard": hard, "used": hard}}
        kubernetes.get(f"{quotas}/none/status", json.dumps(status).encode(), "PUT")
        try:
            kubernetes.get(f"{PODS}/treadle-agent-n2", verb="DELETE")
            assert await awaited(lambda: is_said(bench, "n2", "quota"))
        finally:
            kubernetes.get(f"{quotas}/none", verb="DELETE")
        assert await awaited(lambda: all_there(bench))

    told(shared, kubernetes, story)


def test_who_may_not_is_refused_with_what_is_missing(shared: Path, kubernetes: Cluster):
    accounts = "/api/v1/namespaces/treadle/serviceaccounts"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = kubernetes.create(f"{accounts}/treadle-agent/token", request)
    path = kubernetes.folder / "agent-account"
    write_kubeconfig(kubernetes.kubeconfig, path, json.loads(answer)["status"]["token"])
    with pytest.raises(InvalidInputError, match=r"does not allow it.*podtemplates"):
        KubernetesBench(shared, kubernetes, kubeconfig=path)


def test_from_within_agents_are_called_directly(shared: Path, kubernetes: Cluster):
    bench = KubernetesBench(shared, kubernetes, PATIENT, inside=True)

    async def story() -> None:
        try:
            await bench.runs("talker", on("n1", 0))
            wanted = b"rank 1 one\n"
            assert await bench.text(AttemptId("talker", 1), 1, wanted) == wanted
        finally:
            await bench.clear_away()

    asyncio.run(story())


def test_an_api_server_that_dies_ends_no_job(shared: Path, kubernetes: Cluster):
    async def story(bench: KubernetesBench) -> None:
        await bench.runs("long", on("n1", 0))
        await bench.runs("held", on("n2", 0), action=1)
        await asyncio.to_thread(kubernetes.say, "kill", "api")
        await bench.release("held", 3)  # It ends while nothing can be told.
        await asyncio.to_thread(kubernetes.say, "start", "api")
        await bench.order(Stop(2, "long"))
        await bench.ended("held", within_s=WITHIN_S)
        await bench.ended("long", within_s=WITHIN_S)
        assert [(each.attempt, each.how, each.code) for each in bench.ends("held")] == [
            (1, How.EXITED, 3)
        ]
        assert [(each.attempt, each.how) for each in bench.ends("long")] == [(1, How.STOPPED)]
        assert not [fact for fact in bench.facts if isinstance(fact, NodeLost)]

    told(shared, kubernetes, story)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_an_agent_that_dies_or_hangs_ends_no_job(
    shared: Path, kubernetes: Cluster, number: signal.Signals
):
    async def story(bench: KubernetesBench) -> None:
        await bench.runs("long", on("n1", 0))
        before = set(agents())
        assert len(before) == 3
        for process in before:
            os.kill(process, number)
        await bench.order(Stop(1, "long"))
        await bench.ended("long", within_s=WITHIN_S)
        assert [(each.attempt, each.how) for each in bench.ends("long")] == [(1, How.STOPPED)]
        assert before.isdisjoint(agents())

    told(shared, kubernetes, story)


def test_a_pod_that_is_deleted_stops_its_job_and_comes_again(shared: Path, kubernetes: Cluster):
    async def story(bench: KubernetesBench) -> None:
        await bench.order(Start(0, "long", on("n1", 0)))
        await bench.started("long", 0)
        kubernetes.get(f"{PODS}/treadle-agent-n1", verb="DELETE")
        await bench.ended("long", within_s=WITHIN_S)
        assert [(each.attempt, each.how) for each in bench.ends("long")] == [(1, How.STOPPED)]
        assert await awaited(lambda: lost(bench, "n1"))
        await bench.order(Start(1, "short", on("n1", 0)))
        await bench.ended("short", within_s=WITHIN_S)

    told(shared, kubernetes, story)


def test_a_cordoned_node_is_drained_and_what_runs_goes_on(shared: Path, kubernetes: Cluster):
    async def story(bench: KubernetesBench) -> None:
        def last() -> object:
            about = [each for each in bench.facts if isinstance(each, NodeDrained | NodeJoined)]
            return about[-1] if about else None

        async def drained() -> bool:
            return last() == NodeDrained("n1")

        async def joined() -> bool:
            found = last()
            return isinstance(found, NodeJoined) and found.undrained

        await bench.runs("long", on("n1", 0))
        try:
            await asyncio.to_thread(kubernetes.kubectl, "cordon", "n1")
            assert await awaited(drained)
            with pytest.raises(InvalidInputError, match="cordoned"):
                await bench.engine.order_node("n1", NodeOrder.UNDRAIN)
        finally:
            await asyncio.to_thread(kubernetes.kubectl, "uncordon", "n1")
        assert await awaited(joined)
        assert not bench.ends("long")

    told(shared, kubernetes, story)


async def lost(bench: KubernetesBench, name: str) -> bool:
    return any(isinstance(each, NodeLost) and each.node == name for each in bench.facts)
