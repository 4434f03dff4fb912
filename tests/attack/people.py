"""Real users of this machine, made for a test and removed after it, and what they do.

A user acts through a Python process that root starts and that gives up root before it does
anything: the interpreter may be where only root can read.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PATIENCE_S = 180.0
# What the actions below may use; after the change of user nothing more can be imported.
PREAMBLE = """
import ctypes, http.client, json, os, pathlib, signal, socket, ssl, stat, subprocess, sys
import encodings.idna
uid, gid, groups, target = json.loads(sys.argv[1])
os.setgroups(groups)
os.setresgid(gid, gid, gid)
os.setresuid(uid, uid, uid)
os.chdir("/")

def ask(method, path, body=None, token=None):
    headers = {"Content-Type": "application/json"} if body is not None else {}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    kind, _, place = target.partition(":")
    connection = http.client.HTTPConnection("treadle", timeout=60)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(place)
    text = None if body is None else json.dumps(body)
    connection.request(method, "/api/v1" + path, text, headers)
    answer = connection.getresponse()
    data = answer.read().decode()
    connection.close()
    try:
        return answer.status, json.loads(data)
    except ValueError:
        return answer.status, data

def error_of(act, *words):
    try:
        act(*words)
    except OSError as error:
        return type(error).__name__
    return ""
"""


@dataclass(frozen=True)
class User:
    name: str
    uid: int
    gid: int
    home: Path
    groups: tuple[int, ...]

    def does(self, code: str, *, socket: Path | None = None) -> Any:
        """Run Python as this user; `result` is what it leaves behind."""
        return act(code, uid=self.uid, gid=self.gid, groups=self.groups, socket=socket)


def act(
    code: str, *, uid: int, gid: int, groups: Sequence[int] = (), socket: Path | None = None
) -> Any:
    words = json.dumps([uid, gid, list(groups), f"unix:{socket}"])
    whole = f"{PREAMBLE}\n{code}\nprint(json.dumps(result))"
    found = subprocess.run(
        [sys.executable, "-c", whole, words],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
        env={"PATH": "/usr/bin:/bin"},
    )
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout)


@contextmanager
def group_of_machine(name: str) -> Iterator[int]:
    _command("groupadd", name)
    try:
        yield int(_entry("group", name)[2])
    finally:
        _command("groupdel", name)


@contextmanager
def user_of_machine(
    name: str, folder: Path, *, groups: Sequence[str] = (), uid: int | None = None
) -> Iterator[User]:
    """A user with a home folder and a group of their own."""
    home = folder / name
    words = ["--no-create-home", "--home-dir", str(home), "--shell", "/bin/bash", "--user-group"]
    if groups:
        words += ["--groups", ",".join(groups)]
    if uid is not None:
        words += ["--uid", str(uid)]
    _command("useradd", *words, name)
    try:
        entry = _entry("passwd", name)
        found_uid, gid = int(entry[2]), int(entry[3])
        home.mkdir(mode=0o700, exist_ok=True)
        os.chown(home, found_uid, gid)
        yield User(name, found_uid, gid, home, tuple(os.getgrouplist(name, gid)))
    finally:
        remove(name)


def remove(name: str) -> None:
    if _has("passwd", name):
        _command("userdel", "--force", name)
    if _has("group", name):
        _command("groupdel", name)


def _has(database: str, name: str) -> bool:
    found = subprocess.run(["getent", database, name], capture_output=True, check=False)
    return found.returncode == 0


def _entry(database: str, name: str) -> list[str]:
    found = subprocess.run(["getent", database, name], capture_output=True, text=True, check=True)
    return found.stdout.strip().split(":")


def _command(*words: str) -> None:
    """The files of users are locked while another test changes them."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found = subprocess.run(words, capture_output=True, text=True, check=False)
        if found.returncode == 0:
            return
        locked = "lock" in found.stderr
        assert locked and time.monotonic() < deadline, found.stderr  # noqa: PT018
        time.sleep(0.05)
