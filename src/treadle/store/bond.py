"""A state folder and a store belong together: each keeps the id of the other.

The folder has the files of attempts, the store says which of them count. A folder with another
store would stop that store's jobs as strays; a store with another folder would start jobs that run
already. So both are bonded at the first start, and every later start checks both sides.

    folder \\ store      unbonded             bonded to this folder    bonded to another
    unbonded             bond them            refused                  refused
    to this store        finish the bond      start                    refused
    to another           refused              refused                  refused

The folder's half is written first, so a store that belongs to a folder without a file belongs to
one that was emptied, and its jobs may still run there unseen. `treadle doctor --bond` makes a new
bond on purpose.
"""

import json
import os
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from treadle.core.errors import InvalidInputError, TreadleError
from treadle.files import replace
from treadle.store.filelock import FileLock, Holder
from treadle.store.identity import FOLDER_KEY, SHOWN
from treadle.store.rows import Batch
from treadle.store.store import Store

FILE = "identity.json"
LOCK = "daemon.lock"
BYTES_MAX = 1 << 16


class FolderIdentity(NamedTuple):
    """Who a state folder is, as its own file says."""

    id: str
    store: str  # id of the store that it belongs to
    store_name: str  # where that store was, without a password


class BondedFolder(NamedTuple):
    """The state folder that a store belongs to, as the store says."""

    id: str
    path: str


def default_store(folder: Path) -> str:
    """The address of the store of a state folder, if no other was named."""
    return f"sqlite:///{folder / 'treadle.db'}"


def folder_lock(folder: Path, *, store: str = "") -> FileLock:
    """The lock that the daemon of a state folder holds for its whole life."""
    return FileLock(folder / LOCK, _folder_in_use, about=store)


def _folder_in_use(name: str, holder: Holder) -> TreadleError:
    by = holder.process or "another process"
    store = f", with the store {holder.about}" if holder.about else ""
    return InvalidInputError(
        f"the state folder {name} is in use by {by}{store}; stop it (treadle down) or name another "
        "folder (--state)"
    )


def folder_identity(folder: Path) -> FolderIdentity | None:
    """Who the folder is; None if it was never used. Raises InvalidInputError if it is damaged."""
    path = folder / FILE
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from None
    try:
        with os.fdopen(descriptor, "rb") as file:
            found = json.loads(file.read(BYTES_MAX))
        return FolderIdentity(*(str(found[key]) for key in FolderIdentity._fields))
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from None
    except (ValueError, KeyError, TypeError):
        raise _unreadable(path, "it is damaged") from None


def bonded_folder(text: str | None) -> BondedFolder | None:
    """From what the store keeps; None if it belongs to no folder yet."""
    if not text:
        return None
    try:
        found = json.loads(text)
        return BondedFolder(str(found["id"]), str(found["path"]))
    except (ValueError, KeyError, TypeError):
        raise InvalidInputError(
            f"the store's bond is {text[:80]!r}; it is damaged, and treadle doctor --bond renews it"
        ) from None


def bond(store: Store, folder: Path) -> None:
    """Check that the two belong together; bond them if neither belongs to another."""
    here = folder_identity(folder)
    there = bonded_folder(store.setting(FOLDER_KEY))
    objection = why_not(here, there, folder=folder, store=store.identity, store_name=store.name)
    if objection:
        raise InvalidInputError(objection)
    if (first := original(here, there, folder)) is not None:
        raise InvalidInputError(
            f"the state folder {folder} is a copy of {first}, and both would take charge of the "
            f"same jobs; start with {first}, or run treadle doctor --bond once its jobs have ended "
            "to make the copy a folder of its own"
        )
    if here is None or there is None or there.path != str(folder):
        renew(store, folder, identity="" if here is None else here.id)


def renew(store: Store, folder: Path, *, identity: str = "") -> None:
    """Bond the two, whatever they belonged to before. The folder's half is written first."""
    own = FolderIdentity(identity or uuid4().hex, store.identity, store.name)
    content = json.dumps(own._asdict(), indent=1) + "\n"
    replace(folder / FILE, content.encode(), mode=0o600, sync=True)
    half = json.dumps(BondedFolder(own.id, str(folder))._asdict())
    store.write(Batch(settings={FOLDER_KEY: half}))


def why_not(
    here: FolderIdentity | None,
    there: BondedFolder | None,
    *,
    folder: Path,
    store: str,
    store_name: str,
) -> str:
    """Why the folder and the store do not belong together; empty if they do, or may."""
    if here is not None and here.store != store:
        return (
            f"the state folder {folder} belongs to store {here.store[:SHOWN]} ({here.store_name}), "
            f"and {store_name} is store {store[:SHOWN]}; start with the store it belongs to, put "
            "that back from a backup, name another folder (--state), or run treadle doctor --bond "
            "to use this folder with this store from now on"
        )
    if there is None or (here is not None and there.id == here.id):
        return ""
    return (
        f"the store {store_name} belongs to the state folder {there.path} ({there.id[:SHOWN]}), "
        f"and {folder} is {f'folder {here.id[:SHOWN]}' if here else 'new'}; start with that folder "
        "(--state), name another store (--store), or run treadle doctor --bond to use this store "
        "with this folder from now on"
    )


def original(here: FolderIdentity | None, there: BondedFolder | None, folder: Path) -> Path | None:
    """The folder that this one is a copy of, if that still exists.

    Both would take the attempts of the first for their own.
    """
    if here is None or there is None or there.path == str(folder):
        return None
    first = Path(there.path)
    try:
        known = folder_identity(first)
        same = known is not None and known.id == here.id and not first.samefile(folder)
    except (InvalidInputError, OSError):
        return None
    return first if same else None


def _unreadable(path: Path, reason: str) -> InvalidInputError:
    return InvalidInputError(
        f"{path} says which store this state folder belongs to and cannot be read ({reason}); put "
        "it back from a backup, or remove it and run treadle doctor --bond"
    )
