"""Rules 10 to 13 of docs/add-an-engine.md: devices, nodes, reports. Part of EngineContract."""

import pytest

from treadle.core.actions import Start, Stop
from treadle.core.attempt import How
from treadle.core.cluster import Device
from treadle.core.errors import InvalidInputError
from treadle.core.events import (
    AttemptEnded,
    DeviceClosed,
    DeviceOpened,
    JobFinished,
    NodeDrained,
    NodeJoined,
    NodeLost,
)
from treadle.core.launch import AttemptId
from treadle.core.lifecycle import Phase
from treadle.core.machine import DeviceOrder, NodeOrder
from treadle.testing.engine_bench import HERE, THERE, BenchTests, EngineBench, on, row, told

DEVICE = Device("n0", 0)


class MachineRules(BenchTests):
    """How devices and nodes close, open, drain, are lost and return."""

    # -- rule 10: devices -----------------------------------------------------------------------

    @told()
    async def test_10_an_avoided_device_takes_no_new_work_until_it_is_managed(
        self, bench: EngineBench
    ) -> None:
        await bench.engine.adopt([])
        await bench.engine.order_device(DEVICE, DeviceOrder.AVOID)
        closed = await bench.closed(DEVICE)
        assert closed.cause == "avoided"
        assert closed.reason
        await bench.order(Start(0, "short", HERE))
        assert await bench.end("short", 0) == AttemptEnded("short", 0, 0, How.STOPPED)
        await bench.engine.order_device(DEVICE, DeviceOrder.MANAGE)
        assert DeviceOpened(DEVICE) in bench.facts
        await bench.order(Start(1, "short", HERE))
        assert bench.meaning(await bench.end("short", 1)) == JobFinished("short", 1)

    @told()
    async def test_10_what_runs_on_an_avoided_device_runs_on(self, bench: EngineBench) -> None:
        await bench.runs("long")
        await bench.engine.order_device(DEVICE, DeviceOrder.AVOID)
        await bench.order(Start(1, "short", THERE))
        await bench.end("short", 1)
        assert bench.held() == {"long"}

    @pytest.mark.parametrize("cause", ["avoided", "quarantined"])
    @told()
    async def test_10_a_device_stays_closed_over_a_restart(
        self, bench: EngineBench, cause: str
    ) -> None:
        closed = DeviceClosed(DEVICE, "it smells of smoke", cause)
        await bench.engine.adopt([], closed={DEVICE: closed})
        (node,) = [node for node in bench.engine.view() if node.name == "n0"]
        assert (node.devices[0].state, node.devices[0].because) == (cause, closed.reason)
        assert DeviceOpened(DEVICE) not in bench.facts
        await bench.order(Start(0, "short", HERE))
        assert await bench.end("short", 0) == AttemptEnded("short", 0, 0, How.STOPPED)
        await bench.engine.order_device(DEVICE, DeviceOrder.MANAGE)
        assert DeviceOpened(DEVICE) in bench.facts

    @pytest.mark.parametrize("cause", ["foreign", "unseen", "excluded", "machine"])
    @told()
    async def test_10_a_device_opens_after_a_restart_if_nothing_closes_it_now(
        self, bench: EngineBench, cause: str
    ) -> None:
        closed = DeviceClosed(DEVICE, "it was closed before the restart", cause)
        await bench.engine.adopt([], closed={DEVICE: closed})
        await bench.fact(lambda fact: fact == DeviceOpened(DEVICE))
        (node,) = [node for node in bench.engine.view() if node.name == "n0"]
        assert (node.devices[0].state, node.devices[0].because) == ("free", "")
        await bench.order(Start(0, "short", HERE))
        assert bench.meaning(await bench.end("short", 0)) == JobFinished("short", 0)

    @told()
    async def test_10_an_order_about_an_unknown_device_is_refused(self, bench: EngineBench) -> None:
        await bench.engine.adopt([])
        for device in (Device("n0", 99), Device("elsewhere", 0)):
            with pytest.raises(InvalidInputError, match=str(device)):
                await bench.engine.order_device(device, DeviceOrder.AVOID)

    # -- rule 11: node loss ---------------------------------------------------------------------

    @told("node loss")
    async def test_11_a_lost_node_is_reported_before_the_ends_of_its_attempts(
        self, bench: EngineBench
    ) -> None:
        name = await bench.lose_node()
        lost = await bench.fact(lambda fact: fact == NodeLost(name))
        await bench.order(Stop(9, "long"))  # as the scheduler orders it
        await bench.end("long", 9)
        end = await bench.fact(lambda fact: bench.meaning(fact) in bench.meanings("long"))
        assert bench.index(lost) < bench.index(end)
        assert name not in [node.name for node in bench.engine.nodes()]

    @told("node loss")
    async def test_11_attempts_on_a_lost_node_end_as_lost(self, bench: EngineBench) -> None:
        name = await bench.lose_node()
        await bench.fact(lambda fact: fact == NodeLost(name))
        await bench.end("long", 0)
        (end,) = bench.ends("long")
        assert (end.attempt, end.how, end.node_lost) == (1, How.LOST, True)

    @told("node loss")
    async def test_11_a_node_that_returns_is_reported_and_takes_work(
        self, bench: EngineBench
    ) -> None:
        name = await bench.lose_node()
        lost = await bench.fact(lambda fact: fact == NodeLost(name))
        await bench.order(Stop(9, "long"))
        await bench.end("long", 9)
        await bench.return_node(name)
        joined = await bench.fact(
            lambda fact: isinstance(fact, NodeJoined) and fact.node.name == name
        )
        assert bench.index(lost) < bench.index(joined)
        assert isinstance(joined, NodeJoined)
        assert joined.node in bench.engine.nodes()
        await bench.order(Start(10, "short", on(name, 0)))
        assert bench.meaning(await bench.end("short", 10)) == JobFinished("short", 10)

    # -- rule 12: drains ------------------------------------------------------------------------

    @told("drains")
    async def test_12_a_drained_node_takes_no_new_work_until_it_is_used_again(
        self, bench: EngineBench
    ) -> None:
        (node,) = [node for node in bench.engine.nodes() if node.name == "n0"]
        await bench.engine.adopt([])
        await bench.engine.order_node("n0", NodeOrder.DRAIN)
        await bench.engine.order_node("n0", NodeOrder.DRAIN)
        assert bench.facts == [NodeDrained("n0")]
        await bench.order(Start(0, "short", HERE))
        assert await bench.end("short", 0) == AttemptEnded("short", 0, 0, How.STOPPED)
        await bench.engine.order_node("n0", NodeOrder.UNDRAIN)
        assert bench.facts[-1] == NodeJoined(node)
        await bench.order(Start(1, "short", HERE))
        assert bench.meaning(await bench.end("short", 1)) == JobFinished("short", 1)

    @told("drains")
    async def test_12_what_runs_on_a_drained_node_runs_on(self, bench: EngineBench) -> None:
        await bench.runs("held")
        await bench.engine.order_node("n0", NodeOrder.DRAIN)
        assert bench.held() == {"held"}
        await bench.release("held")
        assert bench.meaning(await bench.end("held", 0)) == JobFinished("held", 0)

    @told("drains")
    async def test_12_a_drain_is_reported_again_after_a_restart(self, bench: EngineBench) -> None:
        await bench.engine.adopt([])
        await bench.engine.order_node("n0", NodeOrder.DRAIN)
        await bench.crash()
        await bench.engine.adopt([])
        assert bench.facts == [NodeDrained("n0")]
        await bench.order(Start(0, "short", HERE))
        assert await bench.end("short", 0) == AttemptEnded("short", 0, 0, How.STOPPED)

    @told()
    async def test_12_an_order_about_an_unknown_node_is_refused(self, bench: EngineBench) -> None:
        await bench.engine.adopt([])
        with pytest.raises(InvalidInputError, match="elsewhere"):
            await bench.engine.order_node("elsewhere", NodeOrder.DRAIN)

    # -- rule 13: reports -----------------------------------------------------------------------

    @told("reports")
    async def test_13_what_a_job_reports_is_handed_on_before_its_end(
        self, bench: EngineBench
    ) -> None:
        await bench.order(Start(0, "reporter", HERE))
        found = await bench.reported(3)
        assert (found.job, found.token) == ("reporter", "the token of reporter")
        assert (found.report.total, found.report.loss) == (10, 0.5)
        await bench.release("reporter")
        await bench.end("reporter", 0)
        assert bench.controls.reports[-1].report.step == 10

    @told("reports")
    async def test_13_a_job_goes_on_reporting_to_the_next_controller(
        self, bench: EngineBench
    ) -> None:
        await bench.order(Start(0, "reporter", HERE))
        await bench.reported(3)
        await bench.crash()
        running = row("reporter", Phase.RUNNING, HERE)
        await bench.engine.adopt([running], [AttemptId("reporter", 1)])
        await bench.release("reporter")
        await bench.reported(10)
