"""Ranks that are asked to stop while they meet: nothing is lost, and nothing is to be explained."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from torch._C._distributed_c10d import TCPStore

from tests.waiting import until
from treadle.train.stop import STOPPED

SCRIPT = """
import torch
from torch.utils.data import TensorDataset
from treadle import train
run = train.start()
model = torch.nn.Linear(2, 1)
sgd = torch.optim.SGD(model.parameters(), lr=0.1)
run.prepare(model, sgd, TensorDataset(torch.zeros(8, 2), torch.zeros(8, 1)), batch_size=4)
print("a line that nothing has flushed")
for epoch in run.epochs(1):
    print("they met")
"""
SAID = "treadle: asked to stop before the training began"
WITHIN_S = 60.0
OWN_KEYS = 2  # that a rank writes before it waits for those of the other


class Site:
    """The store of a job on two nodes, and a rank of it that waits for the other."""

    def __init__(self, folder: Path) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        self.store = subprocess.Popen(
            [sys.executable, "-m", "treadle.train.meeting", "127.0.0.1", str(port)],
            env={**os.environ, "TREADLE_CHANNEL": str(listener.fileno())},
            pass_fds=[listener.fileno()],
        )
        listener.close()
        own = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
        own |= {"MASTER_PORT": str(port), "TORCHELASTIC_USE_AGENT_STORE": "True"}
        self.log = folder / "log"
        with self.log.open("wb") as log:
            self.rank = subprocess.Popen(
                [sys.executable, "-c", SCRIPT],
                env={**os.environ, **own, "GLOO_SOCKET_IFNAME": "lo"},
                stdout=log,
                stderr=log,
            )
        keys = TCPStore("127.0.0.1", port, is_master=False, timeout=timedelta(seconds=WITHIN_S))
        until(lambda: keys.num_keys() >= OWN_KEYS or self.rank.poll() is not None)

    def end_store(self) -> None:
        self.store.kill()
        self.store.wait()

    def clear_away(self) -> None:
        self.rank.kill()
        self.rank.wait()
        self.end_store()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    found = Site(tmp_path)
    yield found
    found.clear_away()


def test_a_rank_that_waits_for_the_others_stops_at_once_and_says_one_line(site: Site) -> None:
    site.rank.send_signal(signal.SIGTERM)
    assert site.rank.wait(WITHIN_S) == STOPPED
    assert site.log.read_text().splitlines() == ["a line that nothing has flushed", SAID]


def test_a_rank_whose_store_is_gone_before_it_is_asked_to_stop_has_not_failed(site: Site) -> None:
    site.end_store()
    until(lambda: "[c10d]" in site.log.read_text())  # It is seen, and the rank is about to fail.
    site.rank.send_signal(signal.SIGTERM)
    assert site.rank.wait(WITHIN_S) == STOPPED
    said = site.log.read_text()
    assert "Traceback" not in said
    assert said.splitlines()[-1] == SAID
