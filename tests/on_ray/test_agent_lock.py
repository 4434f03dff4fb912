"""An agent that outlives its raylet and hangs does not keep its node's folder from the next one."""

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.on_ray.test_ray_agent_host import WITHIN_S, post
from treadle.core.errors import EngineError
from treadle.engines.agent.agent_host import AgentHost
from treadle.engines.agent.agent_lock import locked

# Is the agent of a node, says so, and waits for ever.
AGENT = """
import sys, threading
from pathlib import Path
from tests.on_ray.test_ray_agent_host import post
from treadle.engines.agent.agent_host import AgentHost
host = AgentHost(lambda: True)
print(host.run(host.attend(post(Path(sys.argv[1])))).result(60).error or "ready", flush=True)
threading.Event().wait()
"""
# Starts that and stays its parent, as a raylet does.
RAYLET = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1], sys.argv[2]])
print(child.pid, flush=True)
child.wait()
"""
START_WITHIN_S = 60.0


class Raylet:
    """A process with an agent as its child."""

    def __init__(self, root: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", RAYLET, AGENT, str(root)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        assert self.process.stdout is not None
        self.agent = int(self.process.stdout.readline())
        assert self.process.stdout.readline() == "ready\n"
        self.watched = os.pidfd_open(self.agent)

    @property
    def agent_lives(self) -> bool:
        return not select.select([self.watched], [], [], 0)[0]

    def die(self) -> None:
        self.process.kill()
        self.process.wait()

    def clear_away(self) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.watched, signal.SIGKILL)
        os.close(self.watched)
        self.die()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def raylet(tmp_path: Path) -> Iterator[Raylet]:
    found = Raylet(tmp_path)
    yield found
    found.clear_away()


def test_the_next_agent_ends_one_that_is_stopped_and_whose_raylet_is_dead(
    raylet: Raylet, tmp_path: Path
) -> None:
    os.kill(raylet.agent, signal.SIGSTOP)
    raylet.die()
    host = AgentHost(lambda: True)
    attending = host.run(host.attend(post(tmp_path))).result(START_WITHIN_S)
    assert (attending.error, attending.node is not None) == ("", True)
    assert not raylet.agent_lives
    host.run(host.close()).result(WITHIN_S)


def test_an_agent_that_is_stopped_is_left_to_its_raylet(raylet: Raylet, tmp_path: Path) -> None:
    """Ray knows it, and kills it when it is asked to."""
    os.kill(raylet.agent, signal.SIGSTOP)
    with pytest.raises(EngineError, match="another agent works in"):
        asyncio.run(locked(post(tmp_path).folder, tries=4))
    assert raylet.agent_lives


@pytest.mark.parametrize(
    ("field", "other"), [("boot", "b"), ("namespace", "pid:[1]"), ("start", 1)]
)
def test_a_process_that_is_not_the_one_of_the_file_is_not_killed(
    raylet: Raylet, tmp_path: Path, field: str, other: object
) -> None:
    """The pid may be that of another machine, or was given to another process."""
    path = post(tmp_path).folder / "agent.lock"
    holder = json.loads(path.read_bytes())
    assert holder["pid"] == raylet.agent
    path.write_text(json.dumps(holder | {field: other}))
    os.kill(raylet.agent, signal.SIGSTOP)
    raylet.die()
    with pytest.raises(EngineError, match="another agent works in"):
        asyncio.run(locked(post(tmp_path).folder, tries=4))
    assert raylet.agent_lives
