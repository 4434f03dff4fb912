"""Two jobs on one device: who shares, and that it is seen, while it lasts and when it is over."""

import re
import sys
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.control.daemons import Daemon
from tests.page.visiting import Visitor
from treadle.wire.jobs import JobRequest, State

pytestmark = [pytest.mark.browser, pytest.mark.engine]
UP = ("--devices", "1")
# Little work and much waiting, as a job that waits for its data: company costs it little.
LIGHT = """
import sys, time
steps = int(sys.argv[sys.argv.index("--steps") + 1])
for step in range(steps):
    time.sleep(0.1)
    print(f"step {step + 1}/{steps}", flush=True)
"""


def light(folder: Path, name: str, steps: int) -> JobRequest:
    script = folder / "light.py"
    script.write_text(LIGHT)
    command = (sys.executable, str(script), "--steps", str(steps))
    return JobRequest(command=command, name=name, grace_s=1.0)


def test_jobs_that_share_a_device_are_seen_to(here: Daemon, visitor: Visitor, tmp_path: Path):
    """1. A job of this kind runs alone, with its progress. 2. Two more share the device. 3. One
    ends, and the other has the device to itself."""
    visitor.go("/jobs")
    alone = here.client.submit(light(tmp_path, "seen-alone", 60)).id
    expect(visitor.row("seen-alone").locator(".progress-cell")).to_contain_text(re.compile(r"\d %"))
    here.ended(alone)
    first = here.client.submit(light(tmp_path, "host", 6000)).id
    here.reached(State.RUNNING, first)
    second = here.client.submit(light(tmp_path, "guest", 5000)).id
    expect(visitor.row("guest").locator(".devices")).to_contain_text(f"+ {first}")
    visitor.go("/cluster")
    expect(visitor.tile(0).locator(".part")).to_have_count(2)
    visitor.tile(0).hover()
    card = visitor.page.get_by_label("Device", exact=True)
    expect(card).to_contain_text("shared by 2 jobs")
    expect(card).to_contain_text("guest")
    visitor.keep("cluster-shared")
    visitor.go(f"/jobs/{second}")
    expect(visitor.fact("Beside")).to_contain_text("host")
    here.client.cancel(first)
    expect(visitor.fact("Beside")).to_have_count(0)
    visitor.go("/cluster")
    expect(visitor.tile(0).locator(".part")).to_have_count(1)
