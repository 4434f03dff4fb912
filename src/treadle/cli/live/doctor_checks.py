"""The checks of `treadle doctor`: what there is, and what to do about what is wrong."""

import os
import shutil
import stat
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from treadle.cli.live.nodes import health_text
from treadle.cli.show.clock import now_at
from treadle.client.client import Client
from treadle.client.errors import NoAnswerError, UnreachableError
from treadle.core.errors import InvalidInputError, TreadleError
from treadle.core.launch import AttemptId
from treadle.core.machine import NodeView
from treadle.core.wording import several
from treadle.engines.agent.found import Found, look
from treadle.engines.node.attempt_folders import AttemptFolders
from treadle.store.address import shown
from treadle.store.bond import (
    FILE,
    LOCK,
    FolderIdentity,
    folder_identity,
    folder_lock,
    missing,
    original,
    renew,
    why_not,
)
from treadle.store.deadline import Deadline
from treadle.store.filelock import Holder, holder_of
from treadle.store.identity import SHOWN
from treadle.store.peek import Peeked, peek
from treadle.store.schema import REVISION
from treadle.store.store import Store

SPACE_MIN = 256 * 2**20  # bytes that must be free
OTHERS = 0o077


class Finding(NamedTuple):
    check: str
    ok: bool
    text: str


class Patient(NamedTuple):
    """What is examined."""

    folder: Path
    store: str  # its URL
    socket: Path


def examine(patient: Patient) -> Iterator[Finding]:
    """All checks, in the order in which they build on each other."""
    folder = patient.folder
    if not folder.exists():
        yield Finding(
            "state folder", ok=False, text=f"{folder} does not exist; treadle up makes it"
        )
    else:
        yield from _examine_folder(folder)
    there, finding = _store(patient)
    yield finding
    if folder.exists():
        yield _bond(patient, there)
        yield _strays(patient, there)
    yield _socket(patient)
    yield from _nodes(patient)


def _examine_folder(folder: Path) -> Iterator[Finding]:
    yield _owner(folder)
    yield _lock(folder)
    yield _identity(folder)
    yield _space(folder)
    yield _attempts(folder)


def _owner(folder: Path) -> Finding:
    found = folder.stat()
    wrong = ""
    if not stat.S_ISDIR(found.st_mode):
        wrong = f"{folder} is not a folder; name another one (--state)"
    elif found.st_uid not in (os.geteuid(), 0):
        wrong = f"{folder} belongs to user id {found.st_uid}, not to {os.geteuid()}"
    elif found.st_mode & OTHERS & ~0o011:
        wrong = f"others may read or write {folder}; run chmod 700 {folder}"
    elif not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        wrong = f"{folder} cannot be read and written by user id {os.geteuid()}"
    return Finding("state folder", ok=not wrong, text=wrong or str(folder))


def _lock(folder: Path) -> Finding:
    try:
        holder = holder_of(folder / LOCK)
    except OSError as error:
        return Finding("lock", ok=False, text=f"{folder / LOCK} cannot be read: {error.strerror}")
    return Finding("lock", ok=True, text="free" if holder is None else _held(holder))


def _held(holder: Holder) -> str:
    store = f", with the store {holder.about}" if holder.about else ""
    return f"held by {holder.process or 'another process'}{store}"


def _identity(folder: Path) -> Finding:
    try:
        here = folder_identity(folder)
    except InvalidInputError as error:
        return Finding("identity", ok=False, text=str(error))
    if here is None:
        return Finding("identity", ok=True, text="none yet; the first treadle up makes one")
    text = f"folder {here.id[:SHOWN]}, of store {here.store[:SHOWN]} ({here.store_name})"
    return Finding("identity", ok=True, text=text)


def _space(folder: Path) -> Finding:
    free = shutil.disk_usage(folder).free
    text = f"{free / 2**30:.1f} GiB free"
    if free < SPACE_MIN:
        return Finding("disk", ok=False, text=f"{text}; make room on the file system of {folder}")
    return Finding("disk", ok=True, text=text)


def _attempts(folder: Path) -> Finding:
    count = 0
    try:
        places = [root / "jobs" for root in _roots(folder) if (root / "jobs").is_dir()]
        for job in (job for place in places for job in place.iterdir()):
            count += sum(1 for _ in job.iterdir())
    except OSError as error:
        return Finding(
            "attempts", ok=False, text=f"{error.filename} cannot be read: {error.strerror}"
        )
    text = f"{count} folders, all readable" if places else "none yet"
    return Finding("attempts", ok=True, text=text)


def _roots(folder: Path) -> list[Path]:
    """Where attempts have their folders: this machine's, and those of nodes of a cluster.

    Of nodes, those that share the state folder, and this one.
    """
    nodes = folder / "nodes"
    return [folder, *(sorted(nodes.iterdir()) if nodes.is_dir() else ())]


def _store(patient: Patient) -> tuple[Peeked | None, Finding]:
    name = ""
    try:
        name = shown(patient.store)
        there = peek(patient.store)
    except TreadleError as error:
        return None, Finding("store", ok=False, text=f"{name or 'the store'}: {error}")
    if there is None and (patient.folder / FILE).exists():  # The bond says what to do.
        text = f"{name} does not exist, but the folder belongs to a store"
        return None, Finding("store", ok=False, text=text)
    if there is None:
        return None, Finding("store", ok=True, text=f"{name} does not exist yet")
    if there.revision != REVISION:
        text = f"{name} was written by another Treadle (revision {there.revision}); install that"
        return there, Finding("store", ok=False, text=text)
    if there.damage:
        text = f"{name} is damaged ({there.damage}); put it back from a backup"
        return there, Finding("store", ok=False, text=text)
    who = f"store {there.identity[:SHOWN]}" if there.identity else "without an id yet"
    text = f"{name}, {who}, revision {there.revision}, {there.unfinished} unfinished jobs"
    return there, Finding("store", ok=True, text=text)


def _bond(patient: Patient, there: Peeked | None) -> Finding:
    try:
        here = folder_identity(patient.folder)
    except InvalidInputError:
        return Finding("bond", ok=False, text="the folder cannot say which store it belongs to")
    objection = _objection(patient, here, there)
    if objection:
        return Finding("bond", ok=False, text=objection)
    bonded = here is not None and there is not None and there.folder is not None
    text = "folder and store belong together" if bonded else "made by the first treadle up"
    return Finding("bond", ok=True, text=text)


def _objection(patient: Patient, here: FolderIdentity | None, there: Peeked | None) -> str:
    folder = patient.folder
    if there is None:
        return "" if here is None else missing(here, patient.store, folder)
    if there.identity:
        name = shown(patient.store)
        why = why_not(here, there.folder, folder=folder, store=there.identity, store_name=name)
        if why:
            return why
    if (first := original(here, there.folder, folder)) is not None:
        return f"{folder} is a copy of {first}; start with {first}, or see treadle doctor --bond"
    return ""


def _strays(patient: Patient, there: Peeked | None) -> Finding:
    known = there.attempts if there is not None else frozenset()
    try:
        strays = [found for found in alive(patient.folder) if found.id not in known]
    except OSError as error:
        text = f"{patient.folder / 'live'} cannot be read: {error.strerror}"
        return Finding("strays", ok=False, text=text)
    if not strays:
        return Finding("strays", ok=True, text="no attempt runs that the store does not know")
    return Finding("strays", ok=False, text=f"{_named(strays)}; treadle up stops it")


def _named(found: Collection[Found]) -> str:
    first, more = next(iter(found)), len(found) - 1
    process = f" (process {first.supervisor.process.pid})" if first.supervisor else ""
    others = f", and {more} more" if more else ""
    return (
        f"attempt {first.number} of job {first.job} runs in {first.folder}{process}{others}, and "
        "the store does not know it"
    )


def _socket(patient: Patient) -> Finding:
    try:
        with Client(f"unix:{patient.socket}") as client:
            found = client.status()
    except (UnreachableError, NoAnswerError):
        return Finding("socket", ok=True, text=f"{patient.socket}: no daemon answers")
    except (TreadleError, OSError) as error:
        return Finding("socket", ok=False, text=f"{patient.socket}: {error}")
    text = f"{patient.socket}: treadle {found.version}, process {found.pid}, state "
    text += found.state_folder
    if Path(found.state_folder) != patient.folder:
        return Finding("socket", ok=False, text=f"{text}, which is another state folder")
    problem = f"; {found.problem}" if found.problem else ""
    return Finding("socket", ok=not found.problem, text=text + problem)


def _nodes(patient: Patient) -> Iterator[Finding]:
    """What is wrong with nodes of the cluster, if a daemon says so."""
    nodes: tuple[NodeView, ...] = ()
    with suppress(TreadleError, OSError), Client(f"unix:{patient.socket}") as client:
        nodes = client.nodes()
    wrong = [text for node in nodes for text in _wrong(node, now_at())]
    for text in wrong:
        yield Finding("nodes", ok=False, text=text)
    if not wrong and any(node.health for node in nodes):
        count = several(len(nodes), "node")
        yield Finding("nodes", ok=True, text=f"{count}, the agent of each answers")


def _wrong(node: NodeView, now: float) -> Iterator[str]:
    """now: seconds since 1970."""
    if node.health not in ("", "answers"):  # On one machine there are no agents.
        yield f"node {node.name}: {health_text(node, now)}"
    if node.warning:
        yield node.warning


def alive(folder: Path) -> list[Found]:
    """Attempts in a state folder that run now."""
    made = (
        AttemptFolders(root)
        for root in _roots(folder)
        if (root / "live").is_dir() and (root / "jobs").is_dir()
    )
    return [
        found for places in made for mark in places.live() if (found := look(places, mark)).alive
    ]


def make_bond(patient: Patient) -> str:
    """Bond the folder and the store, whatever they belonged to; a sentence about it.

    Refuses while attempts run that one of them would lose.
    """
    folder = patient.folder
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = folder_lock(folder)
    lock.take(str(folder), Deadline(0))
    try:
        there = peek(patient.store)
        known: frozenset[AttemptId] = frozenset() if there is None else there.attempts
        _refuse([found for found in alive(folder) if found.id not in known], folder)
        if there is not None and there.folder is not None and there.folder.path != str(folder):
            _refuse(alive(Path(there.folder.path)), Path(there.folder.path))
        own = _own_id(patient, there)
        if not own:
            # The engine makes another: processes of the two folders must be told apart.
            (folder / "instance").unlink(missing_ok=True)
        with Store.open(patient.store) as store:
            renew(store, folder, identity=own)
            return f"{folder} and {store.name} belong together now"
    finally:
        lock.release()


def _refuse(running: Collection[Found], folder: Path) -> None:
    if running:
        raise TreadleError(
            f"{_named(running)}; start {folder} with the store that it belongs to and cancel the "
            "job, then try again"
        )


def _own_id(patient: Patient, there: Peeked | None) -> str:
    """The folder's own id; empty, for a new one, if it is a copy."""
    here = folder_identity(patient.folder)
    if here is None or original(here, there.folder if there else None, patient.folder) is not None:
        return ""
    return here.id
