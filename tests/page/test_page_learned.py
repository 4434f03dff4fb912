"""What is known of a job's script, and the jobs of a sweep beside one another."""

import sys
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.control.daemons import Daemon
from tests.page.visiting import Visitor
from treadle.wire.jobs import JobRequest

pytestmark = [pytest.mark.browser, pytest.mark.engine]
UP = ("--devices", "2")
TRAIN = """
import sys
steps = int(sys.argv[1])
for step in range(steps):
    print(f"step {step + 1}/{steps} loss {1 / (step + 1):.3f}", flush=True)
"""


def test_a_sweep_and_what_it_taught_are_seen(here: Daemon, visitor: Visitor, tmp_path: Path):
    script = tmp_path / "train.py"
    script.write_text(TRAIN)

    def submit(steps: int, seed: int) -> str:
        command = (sys.executable, str(script), str(steps), "--seed", str(seed))
        return here.client.submit(JobRequest(command=command, name="sweep")).id

    visitor.go("/jobs")
    jobs = [submit(steps, seed) for steps, seed in ((5, 1), (8, 1), (9, 2))]
    here.ended(*jobs)
    visitor.go(f"/jobs/{jobs[0]}")
    learned = visitor.page.get_by_label("Learned", exact=True)
    expect(learned).to_contain_text("train.py")
    expect(learned).to_contain_text("From 3 runs")
    sweep = visitor.page.get_by_label("Sweep", exact=True).first
    expect(sweep.locator("th")).to_have_text(
        ["Job", "argument 1", "--seed", "State", "Loss", "Steps a second", "Done", "Ends in"]
    )
    expect(sweep.locator("tbody tr")).to_have_count(3)
    expect(sweep.locator("tbody tr").nth(1)).to_contain_text("8")
    sweep.scroll_into_view_if_needed()
    visitor.keep("job-learned")
