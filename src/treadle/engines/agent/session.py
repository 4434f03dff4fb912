"""One controller in charge of one node: a local engine, its facts, and the launches it may ask for.

A session ends when another controller takes charge, when the same one does so anew, or when the
lease has run out. The local engine that is made for the next session finds what runs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from treadle.core.allocation import Allocation
from treadle.core.errors import EngineError
from treadle.core.events import AttemptEnded, Event
from treadle.core.job import Job, JobId, JobSpec
from treadle.core.job_report import JobReport
from treadle.core.launch import Launch
from treadle.engines.agent.copies.command_paths import led_to
from treadle.engines.agent.copies.own_folders import own_folder
from treadle.engines.agent.errors import LostPlaceError
from treadle.engines.agent.messages import Ordered, Row
from treadle.engines.agent.outbox import Outbox
from treadle.engines.local.engine import LocalEngine
from treadle.engines.node.checkpoint_folders import folder_name

API_URL, JOB_TOKEN = "TREADLE_API_URL", "TREADLE_JOB_TOKEN"


class NodeControls:
    """The controls of a local engine whose controller is elsewhere (core.ports.Controls)."""

    def __init__(
        self, root: Path, reports: Callable[[], str], trouble: Callable[[], str] = str
    ) -> None:
        """root: of the agent. reports: where jobs of this node report; empty: nowhere.
        trouble: why the lease of the node is not renewed; empty: it is."""
        self.outbox = Outbox()
        self._root, self._reports, self._trouble = root, reports, trouble
        self._launches: dict[JobId, dict[int, Launch]] = {}  # by order

    def allow(self, launches: Sequence[Ordered]) -> None:
        """The controller said how to launch jobs for orders that follow."""
        for each in launches:
            self._launches.setdefault(each.launch.job, {})[each.action] = each.launch

    def launch(self, job: JobId, action: int, allocation: Allocation) -> Launch:  # noqa: ARG002
        found = self._launches.get(job, {}).get(action)
        if found is None:
            raise EngineError(
                f"the controller did not say how to launch job {job} for order {action}",
                retryable=False,
            )
        return self._fitted(found)

    def _fitted(self, launch: Launch) -> Launch:
        """As it is launched on this node: in the job's own folder, if it was given one here.

        It reports to the agent: a socket of the controller's machine leads nowhere on another.
        """
        if (own := own_folder(self._root, folder_name(launch.job, launch.submission))) is not None:
            launch = _moved(launch, str(own))
        env = {name: value for name, value in launch.env.items() if name != API_URL}
        if API_URL in launch.env and (address := self._reports()):
            env[API_URL] = address
        return replace(launch, env=env)

    def token_of(self, job: JobId) -> str:
        """What a job that was to be launched here reports with; empty: there is no such job."""
        launches = self._launches.get(job)
        return launches[max(launches)].secrets.get(JOB_TOKEN, "") if launches else ""

    def tell(self, *facts: Event) -> None:
        for fact in facts:
            if isinstance(fact, AttemptEnded):
                self.outbox.put(replace(fact, error=self._trouble()) if fact.node_lost else fact)
                self._forget_before(fact)
            else:
                self.outbox.put(fact)

    def report(self, *reports: JobReport) -> None:
        """Jobs of a local engine report by themselves."""
        raise AssertionError(reports)

    def forget(self, job: JobId) -> None:
        """The job has ended: nothing of it is launched any more, and it reports nothing."""
        self._launches.pop(job, None)

    def _forget_before(self, ended: AttemptEnded) -> None:
        """Launches hold secrets; those for orders before this end are not asked for again."""
        kept = self._launches.get(ended.job, {})
        for action in [action for action in kept if action < ended.action]:
            del kept[action]
        if not kept:
            self._launches.pop(ended.job, None)


@dataclass
class Session:
    """A controller in charge."""

    id: str
    epoch: int
    controls: NodeControls
    engine: LocalEngine
    checkpoints: Path  # the root of the folders in which jobs of this node keep theirs
    done: int = 0  # the number of the newest batch of orders that was carried out
    over: str = field(default="")  # why the controller must take charge anew

    def check(self, session: str) -> None:
        if session != self.id:
            raise LostPlaceError("this session has ended")
        if self.over or self.controls.outbox.overflowed:
            raise LostPlaceError(self.over or "the controller has not taken facts for too long")


def _moved(launch: Launch, own: str) -> Launch:
    """In a copy of its folder: its command and variables name files there."""

    def led(text: str) -> str:
        return led_to(text, launch.workdir, own)

    return replace(
        launch,
        workdir=own,
        command=tuple(map(led, launch.command)),
        env={name: led(value) for name, value in launch.env.items()},
    )


def job_of(row: Row) -> Job:
    """A job as the local engine must know it to adopt its attempts."""
    return Job(
        JobSpec(row.job, iterations=1.0),
        0,
        row.phase,
        0.0,
        0.0,
        allocation=row.allocation,
        action=row.action,
        attempt=row.hold,
    )
