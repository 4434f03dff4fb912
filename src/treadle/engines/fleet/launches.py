"""Launches what is ordered: once nothing is in its way and its nodes have its files."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from treadle.core.allocation import Allocation
from treadle.core.attempt import How
from treadle.core.errors import EngineError
from treadle.core.events import JobStarted
from treadle.core.job import FOLDER, ONE_NODE
from treadle.core.launch import CHECKPOINT_DIR, Launch
from treadle.core.live_plans import Leader, leader
from treadle.engines.fleet.archives import SupersededError, UnseenError
from treadle.engines.fleet.course import Course, Launching
from treadle.engines.fleet.gang import Gang
from treadle.engines.fleet.gathering import Ready, gathered, objection
from treadle.engines.fleet.shared_folders import SharedFolders
from treadle.engines.fleet.split import gang_of, parts_of, seats_of, team_of

if TYPE_CHECKING:
    from treadle.engines.fleet.engine import FleetEngine

_ONE_NODE = (
    "a resumable job runs on several nodes only if all of them see its checkpoints; keep them "
    f"in a folder that they share (--env {CHECKPOINT_DIR}=...)"
)
logger = logging.getLogger("treadle")


class NotProvided(NamedTuple):
    """Its nodes do not have the job's files: how and why it is not launched."""

    how: How
    why: str = ""
    only_on: tuple[str, ...] = ()
    only_because: str = ""


def with_places(fact: JobStarted, folders: SharedFolders, course: Course | None) -> JobStarted:
    """The start of an attempt, with where it runs and keeps its checkpoints."""
    if course is None or course.gang is None:
        return fact
    workdirs, course.gang.workdirs = course.gang.workdirs, {}
    kept_on = folders.kept_on(course.gang)
    if not workdirs and not kept_on:
        return fact
    return replace(fact, kept_on=kept_on, workdirs=tuple(sorted(workdirs.items())))


class Launches:
    """The orders that are to be begun."""

    def __init__(self, engine: "FleetEngine") -> None:
        self._engine = engine
        self._waiting: list[tuple[Course, Launching]] = []

    def add(self, course: Course, order: Launching) -> None:
        self._waiting.append((course, order))

    def go(self) -> None:
        """Begin the orders that wait for no other attempt any more."""
        due, self._waiting = self._waiting, []
        ready: list[tuple[Course, Launching]] = []
        for course, order in due:
            if course.beginning is order:
                (self._waiting if course.waits else ready).append((course, order))
        for course, order in ready:
            self._launch(course, order)

    def _launch(self, course: Course, order: Launching) -> None:
        how, why = self._objection(order)
        if how is not None:
            self._engine.do(course, course.not_launched(order, how, why))
        elif _comes(course, order) and (
            len(order.allocation.nodes()) > 1 or self._engine.folders.apart or course.gang
        ):
            self._engine.keep(self._gather(course, order))
        else:
            self._place(course, order, Ready(), {})

    def _objection(self, order: Launching) -> tuple[How | None, str]:
        if self._engine.silent.are_among(order.allocation.nodes()):
            return How.STOPPED, ""  # Back to the queue.
        return objection(order, self._engine.members, self._engine.ever)

    def _place(
        self, course: Course, order: Launching, ready: Ready, workdirs: Mapping[str, str]
    ) -> None:
        """Give the parts to their nodes. workdirs: that jobs were given there."""
        if course.beginning is not order:
            return
        how, why = self._objection(order)
        if how is not None:  # A node left while files were copied.
            self._engine.do(course, course.not_launched(order, how, why))
            return
        if course.waits:  # A part of it was lost meanwhile.
            self.add(course, order)
            return
        nodes = order.allocation.nodes()
        addresses = {
            name: self._engine.members[name].address
            for name in nodes
            if name in self._engine.members
        }
        try:
            launch, allocation = self._engine.ask(order), order.allocation
            if course.gang is not None:
                self._change(course, course.gang, order, launch, addresses, ready.lead_port)
                return
            led = launch.elastic and ready.lead_port
            lead = Leader(nodes[0], ready.lead_port, order.id) if led else None
            gang = gang_of(order.id, launch, allocation, addresses, port=ready.port, leader=lead)
        except Exception as error:  # a bug in one job's orders must not stop other jobs
            self._fail(course, order, error)
        else:
            gang.workdirs = workdirs
            self._engine.traces.add(gang.attempt, gang.nodes)
            self._engine.outputs.remember(gang)
            self._engine.do(course, course.launched(order, gang))

    def _change(
        self,
        course: Course,
        gang: Gang,
        order: Launching,
        launch: Launch,
        addresses: Mapping[str, str],
        port: int,
    ) -> None:
        """Give the order to the parts of an attempt that runs, and to those that join it.

        port: for the next coordinator, if the one that there was is lost.
        """
        found, node = leader(gang.changes), gang.coordinator(order.allocation.nodes())
        assert found is not None, "it has said where members on other nodes are coordinated"
        if found.node != node:
            found = Leader(node, port, order.id)
        team = team_of(found, order.allocation, addresses)
        seats = seats_of(order.id, launch, order.allocation, addresses, port=0, team=team)
        self._engine.traces.add(gang.attempt, tuple(seats))
        effects = course.changing(order, gang, seats)
        self._engine.outputs.remember(gang)
        self._engine.do(course, effects)

    async def _gather(self, course: Course, order: Launching) -> None:
        """Launch once all nodes have the job's files and could begin at once."""

        nodes, ready = order.allocation.nodes(), Ready()

        def wanted() -> bool:
            return course.beginning is order and not self._engine.silent.are_among(nodes)

        try:
            workdirs = await self._provided(self._engine.ask(order), nodes, wanted)
            if isinstance(workdirs, NotProvided):
                self._engine.do(course, course.not_launched(order, *workdirs))
                return
            if len(nodes) > 1 or course.gang is not None:
                ready = await gathered(_comes(course, order), self._engine.clients, wanted)
        except Exception as error:  # a bug in one job's orders must not stop other jobs
            self._fail(course, order, error)
            return
        if ready.objection:  # Nothing was launched and the job is not at fault: back to the queue.
            self._engine.do(course, course.not_launched(order, How.STOPPED))
        else:
            self._place(course, order, ready, workdirs)

    async def _provided(
        self, launch: Launch, nodes: Sequence[str], wanted: Callable[[], bool]
    ) -> Mapping[str, str] | NotProvided:
        """Once the nodes have the job's files: the folders that it was given there."""
        try:
            given = await self._engine.archives.provide(launch, nodes, wanted)
        except SupersededError:  # If the order stands, a node is silent: back to the queue.
            return NotProvided(How.STOPPED)
        except UnseenError as error:
            return NotProvided(How.MACHINE_ERROR, str(error), error.seeing, FOLDER)
        except EngineError as error:
            if error.retryable:  # A node does not answer, or has left: back to the queue.
                return NotProvided(How.STOPPED)
            return NotProvided(How.MACHINE_ERROR, str(error))
        only_on = self._engine.folders.divided(nodes)
        if only_on and launch.keeps_checkpoints:
            return NotProvided(How.MACHINE_ERROR, _ONE_NODE, only_on, ONE_NODE)
        return given

    def _fail(self, course: Course, order: Launching, error: Exception) -> None:
        if not isinstance(error, EngineError):
            logger.error("job %s", order.job, exc_info=error)
        why = str(error) if isinstance(error, EngineError) else f"the engine failed: {error!r}"
        self._engine.do(course, course.not_launched(order, How.ENGINE_ERROR, why))


def _comes(course: Course, order: Launching) -> Mapping[str, Allocation | None]:
    """What is to begin, by node: all of it, or nodes that join an attempt which runs.

    None: only a coordinator, in place of one that is lost.
    """
    parts, gang = parts_of(order.allocation), course.gang
    if gang is None:
        return parts
    comes = {node: own for node, own in parts.items() if node not in gang.nodes}
    found, node = leader(gang.changes), gang.coordinator(parts)
    return comes if found is None or found.node == node else {node: None, **comes}
