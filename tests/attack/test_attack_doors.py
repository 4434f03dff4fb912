"""One user who opens connections and says nothing, and the others."""

import subprocess
import sys
from contextlib import closing

from tests.attack.conftest import Machine
from tests.attack.people import PREAMBLE
from treadle.wire.jobs import State

SILENT = 1200
HOLD = f"""
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
{PREAMBLE}
held = []
for _ in range({SILENT}):
    held.append(socket.socket(socket.AF_UNIX))
    held[-1].connect(target.partition(":")[2])
print("held", flush=True)
sys.stdin.read()
"""


class Holder:
    """A process of a user with many connections to the socket."""

    def __init__(self, machine: Machine) -> None:
        words = f'[{machine.bob.uid}, {machine.bob.gid}, [], "unix:{machine.daemon.socket}"]'
        self._process = subprocess.Popen(
            [sys.executable, "-c", HOLD, words], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"held\n"

    def close(self) -> None:
        self._process.communicate()


def test_a4_a_user_who_fills_the_socket_keeps_no_other_user_out(machine: Machine) -> None:
    with closing(Holder(machine)):
        assert machine.asks(machine.ada, "GET", "/status")[0] == 200
        job = machine.submits(machine.ada, "true")
        (view,) = machine.daemon.ended(job)
        assert view.state is State.SUCCEEDED
        # Their own requests are served as well, at the cost of their own silent connections.
        assert machine.asks(machine.bob, "GET", "/status")[0] == 200
