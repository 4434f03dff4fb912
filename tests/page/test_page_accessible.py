"""What axe-core finds on every page, in light and in dark: nothing serious or critical."""

from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, expect

from tests.control.daemons import Daemon
from tests.page.visiting import LONG, Visitor, bash, visiting
from tests.shared import THOROUGH, thorough
from treadle.wire.jobs import State

pytestmark = [pytest.mark.browser, pytest.mark.engine]
WEIGHTY = {"serious", "critical"}
PLACES = ("cluster", "jobs", "running", "failed", "queue", "decisions", "what-if", "usage")


@pytest.fixture(scope="module")
def jobs(shared: Daemon) -> dict[str, str]:
    """Addresses of a job with output and of one that failed; others wait and are held."""
    client = shared.client
    body = f"echo some output; echo step 3/10; {LONG}"
    runs = client.submit(bash(body, name="runs", devices="3")).id
    failed = client.submit(bash("echo 'ValueError: no'; exit 3", name="failed", retries=0)).id
    shared.ended(failed)
    shared.reached(State.RUNNING, runs)
    client.submit(bash(name="waits", devices="4", tenant="lab"))
    client.submit(bash(name="held", held=True))
    return {"running": f"jobs/{runs}", "failed": f"jobs/{failed}"}


@pytest.fixture(scope="module", params=["light", "dark"] if THOROUGH else ["light"])
def looker(request: pytest.FixtureRequest, browser: Browser, shared: Daemon) -> Iterator[Visitor]:
    with visiting(browser, shared, color_scheme=request.param) as found:
        yield found.log_in()
        found.check()


@pytest.mark.parametrize("place", PLACES)
def test_axe_finds_nothing_serious(looker: Visitor, jobs: dict[str, str], place: str):
    looker.go(f"/{jobs.get(place, place)}")
    expect(looker.page.locator("main h1")).to_be_attached()
    expect(looker.page.locator(".waiting, [role=status]:text('Loading')")).to_have_count(0)
    if place == "what-if":
        looker.page.get_by_role("button", name="Simulate").click()
        expect(looker.page.locator("canvas").first).to_be_visible()
    if place == "running":
        expect(looker.page.get_by_role("log")).to_contain_text("some output")
    _check(looker)
    looker.keep(f"{place}-{_scheme(looker)}")


def test_axe_finds_nothing_serious_in_a_dialog(looker: Visitor, jobs: dict[str, str]):
    looker.go(f"/{jobs['running']}")
    looker.page.get_by_role("button", name="Cancel", exact=True).click()
    expect(looker.page.get_by_role("dialog")).to_be_visible()
    _check(looker)
    looker.page.keyboard.press("Escape")


@thorough
def test_axe_finds_nothing_serious_on_a_phone(
    browser: Browser, shared: Daemon, jobs: dict[str, str]
):
    """And nothing is wider than the screen."""
    with visiting(browser, shared, viewport={"width": 390, "height": 800}) as looker:
        looker.log_in()
        for place in PLACES:
            looker.go(f"/{jobs.get(place, place)}")
            expect(looker.page.locator("main h1")).to_be_attached()
            _check(looker)
            looker.keep(f"phone-{place}")
            over = looker.page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert over <= 0, f"{place} is {over} pixels too wide"
        looker.check()


def _scheme(looker: Visitor) -> str:
    dark = looker.page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    return "dark" if dark else "light"


def _check(looker: Visitor) -> None:
    found = Axe().run(looker.page).response["violations"]
    weighty = [
        f"{each['id']}: {node['html'][:200]} {node.get('failureSummary', '')}"
        for each in found
        if each["impact"] in WEIGHTY
        for node in each["nodes"][:3]
    ]
    assert not weighty, "\n".join(weighty)
