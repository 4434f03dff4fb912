"""`treadle dashboard` and the port that the page is at, with a real daemon and a browser."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import httpx2
import pytest
from tests.cli.live_session import ValueClient, treadle
from tests.control.daemons import Daemon

WORDS = ("--engine", "memory", "--devices", "1")


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="treadle-") as found:
        yield Path(found)


def test_the_link_is_printed_and_said_to_work_once(capsys) -> None:
    assert treadle(ValueClient(), "dashboard", "--no-open") == 0
    printed = capsys.readouterr()
    assert printed.out == "http://127.0.0.1:1/#/login/code\n"
    assert "once, within a minute" in printed.err


def dashboard(daemon: Daemon, folder: Path) -> tuple[str, Path]:
    """What was printed, and the file that the browser was told to open."""
    opened, browser = folder / "opened", folder / "browser"
    browser.write_text(f'#!/bin/sh\nprintf "%s" "$1" > {opened}\n')
    browser.chmod(0o700)
    env = os.environ | {"BROWSER": str(browser), "TREADLE_SOCKET": str(daemon.socket)}
    env |= {"XDG_CONFIG_HOME": str(folder / "config"), "HOME": str(folder)}
    words = [sys.executable, "-m", "treadle", "dashboard"]
    found = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
    return found.stdout.strip(), Path(unquote(urlsplit(opened.read_text()).path))


def test_the_browser_is_given_a_file_of_its_user_alone_and_logs_in_by_it(folder: Path) -> None:
    daemon = Daemon(folder, *WORDS).start()
    try:
        url, file = dashboard(daemon, folder)
        assert file.stat().st_mode & 0o777 == 0o600
        assert file.parent.stat().st_mode & 0o777 == 0o700
        leads_to = re.search(r'content="0; url=([^"]+)"', file.read_text())
        assert leads_to is not None
        assert leads_to[1] == url
        page, _, code = url.partition("#/login/")
        with httpx2.Client(base_url=page, trust_env=False) as http:
            assert http.get("/").headers["content-type"].startswith("text/html")
            made = http.post("/api/v1/session", json={"link": code})
            http.headers["X-CSRF-Token"] = made.json()["csrf"]
            assert http.get("/api/v1/jobs").status_code == 200
            assert http.post("/api/v1/session", json={"link": code}).status_code == 401
        again, file = dashboard(daemon, folder)
        assert again != url
        assert again in file.read_text()
    finally:
        daemon.leave()


def test_the_port_is_kept_over_a_restart_and_no_session_is(folder: Path) -> None:
    daemon = Daemon(folder, *WORDS).start()
    try:
        first = daemon.client.status().url
        code = daemon.client.session_link().url.partition("#/login/")[2]
        with httpx2.Client(base_url=first, trust_env=False) as http:
            made = http.post("/api/v1/session", json={"link": code})
            http.headers["X-CSRF-Token"] = made.json()["csrf"]
            assert http.get("/api/v1/jobs").status_code == 200
            daemon.kill()
            daemon.start()
            assert daemon.client.status().url == first
            assert http.get("/api/v1/jobs").status_code == 401
    finally:
        daemon.leave()
