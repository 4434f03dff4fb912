"""Jobs that are submitted at random moments of the web page's life: is each of them shown?

    python -m benchmarks.page_restarts
    python -m benchmarks.page_restarts --times 100 --restarts 0 --throttle 20

A real daemon and a real Chromium. Each time, a held job is submitted: while the page reads its
lists, between two ticks, while the daemon is away, or while somebody logs in. Then, after a moment
that is drawn too, the Jobs page is opened. A job that is not in its table within `PATIENCE_S` was
missed: by the page's memory, if the job is not there either, or else by what draws it. Every
so many times the daemon is killed and started again. A tab that is slowed down, as on a busy
machine, is longer in between its states. Exits with 1 if a job was missed.
"""

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.page_streams import until_there
from playwright.sync_api import Page, sync_playwright
from playwright.sync_api import TimeoutError as TooLateError

from treadle.client import Client
from treadle.wire.jobs import JobRequest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
PATIENCE_S = 6.0
MOMENT_S = 1.2  # longer than from one tick to the next
KNOWN = "async (id) => (await import('/static/state.js')).state.jobs.has(id)"


class Machine:
    """A daemon with the engine in memory, over one state folder."""

    def __init__(self, folder: Path) -> None:
        self.client = Client(f"unix:{folder / 's'}")
        self._path = folder / "s"
        self._words = ["up", "--foreground", "--engine", "memory", "--devices", "4"]
        self._words += ["--state", str(folder / "state"), "--socket", str(self._path)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "treadle", *self._words]
        self._process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        until_there(self._path)

    def leave(self, *, kill: bool) -> None:
        assert self._process is not None
        self._process.kill() if kill else self._process.terminate()
        self._process.wait(20)
        self.client.close()

    def submit(self) -> str:
        return self.client.submit(JobRequest(command=("forever",), held=True)).id


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--restarts", type=int, default=10, help="One after so many times; 0: none")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--throttle", type=float, default=1.0, help="Of the tab: times slower")
    asked = parser.parse_args()
    with _opened(asked.throttle) as (machine, page):
        found = _played(machine, page, asked)
    for what, number in sorted(found.items()):
        print(f"{what:30} {number:6}")
    sys.exit(any(what.startswith("missed") for what in found))


@contextmanager
def _opened(throttle: float) -> Iterator[tuple[Machine, Page]]:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        machine = Machine(Path(folder))
        machine.start()
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            page = browser.new_page()
            slower = page.context.new_cdp_session(page)
            slower.send("Emulation.setCPUThrottlingRate", {"rate": throttle})
            page.goto(machine.client.session_link().url)
            page.wait_for_selector("nav")
            yield machine, page
        finally:
            browser.close()
            machine.leave(kill=False)


def _played(machine: Machine, page: Page, asked: argparse.Namespace) -> Counter[str]:
    drawn, found = random.Random(asked.seed), Counter[str]()
    for number in range(1, asked.times + 1):
        if asked.restarts and number % asked.restarts == 0:
            found["restarts"] += 1
            job = _restarted(machine, page, drawn)
        else:
            page.evaluate("location.hash = '#/cluster'")
            page.wait_for_selector(".tile")
            job = machine.submit()
            time.sleep(drawn.uniform(0.0, MOMENT_S))
            page.evaluate("location.hash = '#/jobs'")
        found["jobs"] += 1
        if not _is_shown(page, job):
            what = "drawn" if page.evaluate(KNOWN, job) else "known"
            found[f"missed: not {what}"] += 1
        machine.client.cancel(job)
    return found


def _restarted(machine: Machine, page: Page, drawn: random.Random) -> str:
    """Away and back; the job is submitted before, while the page logs in, or after."""
    moment = drawn.choice(["before", "at the login", "after"])
    job = machine.submit() if moment == "before" else ""
    machine.leave(kill=drawn.random() < 0.5)
    time.sleep(drawn.uniform(0.0, MOMENT_S))
    machine.start()
    page.wait_for_selector("#token", timeout=30_000)
    page.goto(machine.client.session_link().url)
    job = machine.submit() if moment == "at the login" else job
    page.wait_for_selector("nav")
    page.evaluate("location.hash = '#/jobs'")
    time.sleep(drawn.uniform(0.0, MOMENT_S) if moment == "after" else 0.0)
    return job or machine.submit()


def _is_shown(page: Page, job: str) -> bool:
    try:
        page.wait_for_selector(f".job-row a[href='#/jobs/{job}']", timeout=1000 * PATIENCE_S)
    except TooLateError:
        return False
    return True


if __name__ == "__main__":
    main()
