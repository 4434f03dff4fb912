"""The web page of a large installation: 5,000 jobs, 512 devices and 50 events a second.

    python -m benchmarks.page [--jobs 5000] [--devices 512] [--seconds 20] [--json]

A real daemon with the engine in memory, and a real Chromium, headless, with a profile of its own.
Events are made by changing jobs in bulk. Measured of the tab, by the processes that Chromium has
for it: the share of one core and the memory while the Jobs page is open, frames a second while its
table is scrolled, the time from an empty tab to a cluster with devices, and the size of all files
that the page is made of.

The renderer draws without a graphics card here, so that the frames are those of the processor; on a
busy machine they are those that are left, and the CPU time of a frame says more.
Everything runs on one machine: the daemon and the browser take time from each other. The loop of
`calibration_s` takes 0.6 s on a good machine that does nothing else; compare figures of one run.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from statistics import median

from benchmarks.page_streams import calibration_s, until_there
from playwright.sync_api import Browser, Page, expect, sync_playwright

from treadle.client import Client
from treadle.client.errors import NoAnswerError
from treadle.wire.job_orders import Verb
from treadle.wire.jobs import JobChange, JobRequest
from treadle.wire.problems import UnsettledError

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
STATIC = Path(__file__).parents[1] / "src" / "treadle" / "server" / "static"
COMMAND = ("forever",)  # the engine in memory ends most others at once
CHANGED = 25  # jobs in one order; each change is two events
EVERY_S = 0.95  # an order, which takes some time itself
USEFUL_TIMES = 5
MOST = {
    "events a second": 60.0,
    "tab, share of a core": 0.30,
    "tab, memory MB": 300.0,
    "first useful page s": 1.0,
    "static files KB": 300.0,
}
LEAST = {"events a second": 40.0, "frames a second, scrolling": 50.0}
# Scrolls as a wheel does, a screenful every third of a second, and counts frames meanwhile.
SCROLL = """async (seconds) => {
  const box = document.querySelector(".window-list");
  const began = performance.now();
  let frames = 0, last = began, longest = 0;
  return new Promise((done) => {
    const frame = (at) => {
      frames += 1;
      longest = Math.max(longest, at - last);
      last = at;
      box.scrollTop += 34;
      if (at - began < seconds * 1000) requestAnimationFrame(frame);
      else done({ frames, per_s: frames / ((at - began) / 1000), longest_ms: longest });
    };
    requestAnimationFrame(frame);
  });
}"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=5000)
    parser.add_argument("--devices", type=int, default=512)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    if CHROMIUM is None:
        print("no chromium here; apt-get install chromium", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="treadle-", ignore_cleanup_errors=True) as folder:
        socket = Path(folder) / "s"
        words = ["up", "--foreground", "--engine", "memory", "--devices", str(asked.devices)]
        words += ["--port", "0", "--state", f"{folder}/state", "--socket", str(socket)]
        daemon = subprocess.Popen(
            [sys.executable, "-m", "treadle", *words], stderr=subprocess.DEVNULL
        )
        try:
            until_there(socket)
            with Client(f"unix:{socket}") as client:
                found = measure(client, asked)
        finally:
            daemon.kill()
            daemon.wait()
    return told(found, asked)


def told(found: dict[str, float], asked: argparse.Namespace) -> int:
    missed = [name for name, most in MOST.items() if found[name] > most]
    missed += [name for name, least in LEAST.items() if found[name] < least]
    if asked.json:
        budget = {"most": MOST, "least": LEAST}
        print(json.dumps({"figures": found, "budget": budget, "missed": missed}, indent=1))
        return 1 if missed else 0
    load = os.getloadavg()[0]
    print(f"{asked.jobs} jobs, {asked.devices} devices, {os.cpu_count()} cores, load {load:.1f}")
    for name, value in found.items():
        limits = [f"at most {MOST[name]:g}"] if name in MOST else []
        limits += [f"at least {LEAST[name]:g}"] if name in LEAST else []
        limit = ", ".join(limits)
        print(f"  {name:<28} {value:10.3f}  {limit}{'  MISSED' if name in missed else ''}")
    return 1 if missed else 0


def measure(client: Client, asked: argparse.Namespace) -> dict[str, float]:
    jobs = _submitted(client, asked.jobs)
    found = {"static files KB": sum(p.stat().st_size for p in STATIC.rglob("*.*")) / 1000}
    _settle(client)
    running = client.status().running
    assert running == min(asked.devices, asked.jobs - CHANGED), f"{running} jobs run"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        events = _Events(client, jobs[-CHANGED:])
        events.start()
        try:
            found["first useful page s"] = median(
                _useful_s(browser, client) for _ in range(USEFUL_TIMES)
            )
            found |= _while_open(browser, client, asked.seconds)
            found["frames of a plain list"] = _plain(browser, asked.seconds / 2)
        finally:
            events.ended.set()
            events.join()
            browser.close()
    found["calibration s"] = calibration_s()
    return found


def _submitted(client: Client, many: int) -> list[str]:
    """As many as there are devices run; the rest wait, and the last are held."""
    jobs: list[str] = []
    many -= CHANGED
    while len(jobs) < many:
        count = min(1000, many - len(jobs))
        request = JobRequest(
            command=COMMAND,
            name=f"sweep-{len(jobs) // 1000}",
            tenant=("vision", "language", "speech")[len(jobs) // 1000 % 3],
            array=f"0-{count - 1}",
        )
        jobs += client.submit(request).jobs
    held = JobRequest(command=COMMAND, array=f"0-{CHANGED - 1}", held=True)
    return [*jobs, *client.submit(held).jobs]


def _settle(client: Client) -> None:
    """Nothing happens any more: all that can start has started."""
    before = -1
    while (now := client.events_last(limit=1).next) != before:
        before = now
        time.sleep(2)


class _Events(threading.Thread):
    """Changes some jobs again and again."""

    def __init__(self, client: Client, jobs: list[str]) -> None:
        super().__init__(daemon=True)
        self.ended = threading.Event()
        self._client = client
        self._jobs = jobs

    def run(self) -> None:
        turn = 0
        while not self.ended.wait(EVERY_S):
            turn += 1
            # It is done, and the disk is behind; or the daemon is busy, and fewer events are made.
            with suppress(UnsettledError, NoAnswerError):
                self._client.order(Verb.CHANGE, self._jobs, change=JobChange(priority=turn % 5))


def _useful_s(browser: Browser, client: Client) -> float:
    """From an empty tab, in a new profile with a session, to devices on the Cluster page."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    _log_in(page, client)
    page.goto("about:blank")
    page.add_init_script(
        "new MutationObserver((_, self) => { if (document.querySelector('.tile')) {"
        " window.usefulAt = performance.now(); self.disconnect(); } })"
        ".observe(document, { childList: true, subtree: true });"
    )
    page.goto(client.status().url)
    page.locator(".tile").first.wait_for(timeout=60_000)
    took_ms = float(page.evaluate("window.usefulAt"))
    context.close()
    return took_ms / 1000


def _while_open(browser: Browser, client: Client, seconds: float) -> dict[str, float]:
    """The Jobs page: at rest, then scrolled."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    _log_in(page, client)
    page.goto(f"{client.status().url}/#/jobs")
    expect(page.locator(".job-row").nth(10)).to_be_visible(timeout=60_000)
    tab = _Tab(browser, page)
    page.wait_for_timeout(3000)
    events = client.events_last(limit=1).next
    began, cpu = time.monotonic(), tab.cpu_s()
    page.wait_for_timeout(1000 * seconds)
    rested_s = time.monotonic() - began
    events, share = client.events_last(limit=1).next - events, (tab.cpu_s() - cpu) / rested_s
    cpu = tab.cpu_s()
    scrolled = page.evaluate(SCROLL, seconds / 2)
    scrolled_s = tab.cpu_s() - cpu
    found = {
        "events a second": events / rested_s,
        "tab, share of a core": share,
        "tab, memory MB": tab.memory_mb(),
        "script heap MB": float(page.evaluate("performance.memory.usedJSHeapSize")) / 1e6,
        "frames a second, scrolling": float(scrolled["per_s"]),
        "longest frame ms": float(scrolled["longest_ms"]),
        "tab, CPU ms of a frame": 1000 * scrolled_s / float(scrolled["frames"]),
    }
    context.close()
    return found


def _plain(browser: Browser, seconds: float) -> float:
    """Frames a second of a list without any script: what this machine can do at best."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    rows = "".join(f"<div style='height: 34px'>row {number}</div>" for number in range(2000))
    style = "height: 800px; overflow: auto"
    page.set_content(f"<div class='window-list' style='{style}'>{rows}</div>")
    scrolled = page.evaluate(SCROLL, seconds)
    context.close()
    return float(scrolled["per_s"])


def _log_in(page: Page, client: Client) -> None:
    page.goto(client.session_link().url)
    expect(page.get_by_role("navigation", name="Pages")).to_be_visible(timeout=60_000)


class _Tab:
    """The process that Chromium has for a page."""

    def __init__(self, browser: Browser, page: Page) -> None:
        session = browser.new_browser_cdp_session()
        before = self._renderers(session.send("SystemInfo.getProcessInfo"))
        # The one that works while the page does.
        page.evaluate(
            "() => { const end = performance.now() + 300; while (performance.now() < end); }"
        )
        after = self._renderers(session.send("SystemInfo.getProcessInfo"))
        session.detach()
        self._pid = max(after, key=lambda pid: after[pid] - before.get(pid, 0.0))

    @staticmethod
    def _renderers(answer: dict[str, object]) -> dict[int, float]:
        processes = answer["processInfo"]
        assert isinstance(processes, list)
        return {each["id"]: each["cpuTime"] for each in processes if each["type"] == "renderer"}

    def cpu_s(self) -> float:
        words = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mb(self) -> float:
        """What is resident, with its part of what it shares with Chromium's other processes."""
        text = Path(f"/proc/{self._pid}/smaps_rollup").read_text()
        return int(text.partition("\nPss:")[2].split()[0]) * 1024 / 1e6


if __name__ == "__main__":
    sys.exit(main())
