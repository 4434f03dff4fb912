"""Take the pictures of the README, and one of each page.

    python -m tools.screenshots [--folder FOLDER]

Needs Chromium and the development dependencies. It starts a daemon of its own with 16 CPU slots,
runs jobs for about two minutes, and writes docs/page-cluster.png and docs/page-job.png; into the
folder, if one is given, each page in light and dark, and at the width of a phone.
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, expect, sync_playwright
from tests.control.daemons import Daemon, daemon
from tests.page.visiting import Visitor, visiting
from tests.shared import CHROMIUM
from tests.waiting import until

from treadle.wire.jobs import JobRequest, State

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).parent / "training.py"
PLACES = ("cluster", "jobs", "queue", "decisions", "what-if", "usage")
BYTES_MAX = 200_000
UP = ("--devices", "16", "--policy", "afs+live?restart_s=0.05")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path)
    asked = parser.parse_args()
    if CHROMIUM is None:
        print("no chromium here; apt-get install chromium", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="training-") as folder, sync_playwright() as playwright:
        script = Path(shutil.copy(SCRIPT, folder))
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        with daemon(*UP) as here:
            job = _worked(here, script)
            _readme(browser, here, job)
            if asked.folder:
                asked.folder.mkdir(parents=True, exist_ok=True)
                for scheme in ("light", "dark"):
                    _every(browser, here, job, asked.folder, scheme=scheme, width=1280)
                _every(browser, here, job, asked.folder, scheme="light", width=390)
        browser.close()
    return 0


def _worked(here: Daemon, script: Path) -> str:
    """Jobs of three tenants, some ended, some running, some waiting; the one to show in full."""

    def submit(name: str, tenant: str, steps: int, *words: str, **fields: object) -> str:
        command = ("python3", script.name, "--steps", str(steps), *words)
        fields = {"workdir": str(script.parent), "grace_s": 5.0, "ranks": "one", **fields}
        request = JobRequest(command=command, name=name, tenant=tenant, **fields)  # type: ignore[arg-type]
        return here.client.submit(request).id

    elastic = {"devices": "2..8", "resumable": True}
    known = submit("augment", "vision", 60, "--step-s", "0.1")
    shown = submit("llama-finetune", "language", 2400, **elastic)
    submit("vit-base", "vision", 300, devices="2")
    failing = submit("vit-large", "vision", 100, "--fails", devices="2", retries=0)
    probes = [submit(f"probe-{number}", "speech", 40 + 10 * number) for number in range(3)]
    here.reached(State.RUNNING, shown)
    here.ended(known, failing, *probes)
    submit("resnet-sweep", "vision", 1500, devices="1..4", resumable=True, array="0-3%2")
    submit("whisper-small", "speech", 900, devices="4", estimate_s=120.0, priority=1)
    submit("bert-eval", "language", 1600, devices="2", estimate_s=160.0)
    for number in range(3):
        submit(f"augment-{number}", "vision", 2000 + number, "--step-s", "0.1")
    submit("wav2vec", "speech", 900, devices="8", estimate_s=300.0)
    submit("mixtral-pretrain", "language", 5000, devices="16", estimate_s=900.0)
    submit("nightly", "language", 100, held=True)
    until(lambda: here.view(shown).resizes > 0)
    for least in (400, 700):  # Something to look back at.
        until(lambda: _step(here, shown) > least)  # noqa: B023  It is called at once.
    return shown


def _step(here: Daemon, job: str) -> float:
    progress = here.view(job).progress
    return progress.step if progress else 0.0


def _readme(browser: Browser, here: Daemon, job: str) -> None:
    with visiting(browser, here, viewport={"width": 1280, "height": 760}) as visitor:
        visitor.log_in()
        _settled(visitor, "cluster")
        with visitor.page.expect_response(lambda answer: "/spells?" in answer.url):
            visitor.page.get_by_role("button", name="10 min").click()
        visitor.tile(0).hover()
        expect(visitor.page.get_by_label("Device", exact=True)).to_contain_text("Devices")
        _taken(visitor, ROOT / "docs" / "page-cluster.png")
        visitor.page.set_viewport_size({"width": 1280, "height": 890})
        _settled(visitor, f"jobs/{job}")
        expect(visitor.page.get_by_role("log")).to_contain_text("step")
        _taken(visitor, ROOT / "docs" / "page-job.png")


def _every(
    browser: Browser, here: Daemon, job: str, folder: Path, *, scheme: str, width: int
) -> None:
    size = {"width": width, "height": 900 if width > 800 else 800}
    with visiting(browser, here, viewport=size, color_scheme=scheme) as visitor:
        visitor.log_in()
        for place in (*PLACES, f"jobs/{job}"):
            _settled(visitor, place)
            if place == "what-if":
                visitor.page.get_by_label("Policy").fill("srtf")
                visitor.page.get_by_role("button", name="Simulate").click()
                expect(visitor.page.locator("canvas").first).to_be_visible()
            name = place.partition("/")[0] if place in PLACES else "job"
            path = folder / f"{name}-{scheme}-{width}.png"
            visitor.page.screenshot(path=path, full_page=True)


def _settled(visitor: Visitor, place: str) -> None:
    """The page with all that it reads first."""
    visitor.go(f"/{place}")
    page = visitor.page
    expect(page.locator("main h1")).to_be_attached()
    expect(page.locator(".waiting, [role=status]:text('Loading')")).to_have_count(0)
    page.wait_for_load_state("load")
    page.mouse.move(0, 0)


def _taken(visitor: Visitor, path: Path) -> None:
    visitor.page.screenshot(path=path)
    size = path.stat().st_size
    print(f"{path.relative_to(ROOT)}: {size / 1000:.0f} KB")
    assert size < BYTES_MAX, f"{path} has {size} bytes; the README is to stay light"


if __name__ == "__main__":
    sys.exit(main())
