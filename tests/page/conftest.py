"""One browser and one daemon for all modules that want it alike, and a tab for each test.

Playwright's loop runs in the thread of the tests for as long as its browser is open, and no other
loop can run there: so the browser is closed before a test outside of this folder begins.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.control.daemons import Daemon, daemon
from tests.page.visiting import Visitor, clear, visiting
from tests.shared import CHROMIUM


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no chromium here; apt-get install chromium to run browser tests")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(scope="package")
def daemons(browser: Browser) -> Iterator[Callable[..., Daemon]]:
    """Those that run, by the words that they were started with."""
    found: dict[tuple[str, ...], Daemon] = {}
    with ExitStack() as stack:

        def started(*words: str) -> Daemon:
            if words not in found:
                found[words] = stack.enter_context(daemon(*words))
            return found[words]

        yield started


@pytest.fixture(scope="module")
def shared(request: pytest.FixtureRequest, daemons: Callable[..., Daemon]) -> Iterator[Daemon]:
    """A module may say with which words it is started: `UP`."""
    found = daemons(*getattr(request.module, "UP", ("--devices", "4")))
    yield found
    clear(found)


@pytest.fixture
def here(shared: Daemon) -> Iterator[Daemon]:
    yield shared
    clear(shared)


@pytest.fixture
def visitor(browser: Browser, here: Daemon) -> Iterator[Visitor]:
    """Logged in, and checked when the test is over."""
    with visiting(browser, here) as found:
        yield found.log_in()
        found.check()
