"""A visitor of the web page: a tab of a real Chromium, what it asked for and what it complained of.

Whatever a test does, the page may say nothing on the console, may ask nobody but the daemon, and
may not be refused anything by its own content security policy.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Request, expect

from tests.control.daemons import Daemon
from tests.waiting import until
from treadle.wire.jobs import JobRequest
from treadle.wire.machine import Role, TokenRequest
from treadle.wire.problems import ConflictError

WIDTH, HEIGHT = 1280, 900
PATIENCE_MS = 15_000.0
# It stops at once when it is told to, and can be resumed.
LONG = "trap 'exit 143' TERM; while :; do sleep 0.1 & wait $!; done"

expect.set_options(timeout=PATIENCE_MS)


def bash(body: str = LONG, **fields: object) -> JobRequest:
    """A small job."""
    fields = {"grace_s": 1.0, "ranks": "one", **fields}
    return JobRequest(command=("/bin/bash", "-c", body), **fields)  # type: ignore[arg-type]


class Visitor:
    """One tab, in a browser profile of its own."""

    def __init__(self, page: Page, daemon: Daemon) -> None:
        self.page = page
        self.daemon = daemon
        self.url = daemon.client.status().url
        self.said: list[str] = []  # on the console, warnings and errors
        self.expected: set[str] = set()  # parts of what may be said
        self.asked: set[str] = set()  # addresses, of whatever kind
        page.set_default_timeout(PATIENCE_MS)
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("request", self._see)

    def log_in(self, where: str = "/cluster") -> "Visitor":
        """By the link that `treadle dashboard` opens."""
        self.page.goto(self.daemon.client.session_link().url)
        expect(self.nav).to_be_visible()
        return self.go(where)

    def log_in_as(self, user: str, role: Role) -> "Visitor":
        """By a token, typed in."""
        request = TokenRequest(name=f"page of {user}", user=user, role=role)
        token = self.daemon.client.make_token(request).token
        self.page.goto(self.url)
        self.type_token(token)
        expect(self.nav).to_be_visible()
        return self

    def type_token(self, token: str) -> None:
        self.page.get_by_label("Token").fill(token)
        self.page.get_by_role("button", name="Log in").click()

    def go(self, where: str) -> "Visitor":
        self.page.evaluate("where => { location.hash = where; }", f"#{where}")
        return self

    @property
    def nav(self) -> Locator:
        return self.page.get_by_role("navigation", name="Pages")

    def row(self, text: str) -> Locator:
        """A row of the table of jobs; a reason may name another job, so its name counts."""
        named = self.page.locator(".name, .group-name", has_text=text)
        return self.page.get_by_role("row").filter(has=named)

    def tile(self, number: int) -> Locator:
        """A device on the Cluster page."""
        return self.page.locator(".tile").nth(number)

    def fact(self, name: str) -> Locator:
        """The value of one of a job's facts."""
        return self.page.locator(".job-facts div").filter(
            has=self.page.get_by_text(name, exact=True)
        )

    def keep(self, name: str) -> Path | None:
        """A picture of the page, where they are to be kept."""
        folder = os.environ.get("TREADLE_SCREENSHOTS")
        if not folder:
            return None
        path = Path(folder) / f"{name}.png"
        self.page.screenshot(path=path)
        return path

    def check(self) -> None:
        """Nothing was complained of, but what was expected; and nobody else was asked anything."""
        # Chromium itself writes of a refused request: the page asks who is logged in. Nobody is.
        expected = {f"401 (Unauthorized) ({self.url}/api/v1/session)", *self.expected}
        complaints = [text for text in self.said if not any(part in text for part in expected)]
        assert not complaints, "\n".join(complaints)
        strangers = {url for url in self.asked if not url.startswith((self.url, "data:", "blob:"))}
        assert not strangers, strangers

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            where = message.location.get("url", "")
            self.said.append(f"{message.text} ({where})")

    def _see(self, request: Request) -> None:
        self.asked.add(request.url)


@contextmanager
def visiting(browser: Browser, daemon: Daemon, **settings: object) -> Iterator[Visitor]:
    settings = {"viewport": {"width": WIDTH, "height": HEIGHT}, "locale": "en-GB", **settings}
    context = browser.new_context(**settings)  # type: ignore[arg-type]
    try:
        yield Visitor(context.new_page(), daemon)
    finally:
        context.close()


def clear(daemon: Daemon) -> None:
    """No job is left that has not ended."""
    for view in daemon.client.job_page(limit=1000).jobs:
        try:
            daemon.client.cancel(view.id)
        except ConflictError:
            continue  # It has ended by now.
    until(lambda: not daemon.client.job_page(limit=1).jobs)
