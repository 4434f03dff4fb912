"""What a controller and an agent say to each other about copies of folders (messages.py)."""

from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from treadle.engines.agent.copies.tree import Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """A folder on a node: the checkpoints of a job, or code that was submitted from elsewhere."""

    kind: Literal["checkpoints", "code"]
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StockAsked:
    session: str
    folder: Folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Stock:
    """What a node has of a folder."""

    attempt: int = 0  # the newest attempt whose files are there; 0: not known
    written: bool = False  # that attempt ran there, and wrote them itself
    part: int = 0  # which of its nodes this one was
    newest_ns: int = 0  # when the newest file was written
    state: str = ""  # another one whenever something there has changed
    bytes: int = 0
    files: int = 0
    objection: str = ""  # why it cannot be copied


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptAsked:
    """What a node has of the checkpoints of a job, whatever the names of its folders are."""

    session: str
    job: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    stocks: dict[str, Stock]  # by name of the folder
    drafts: tuple[str, ...] = ()  # names of folders of which a copy broke off


@dataclass(frozen=True, slots=True, kw_only=True)
class ListAsked:
    session: str
    folder: Folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAsked:
    session: str
    folder: Folder
    entry: Entry
    offset: int
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    data: bytes
    digest: str  # SHA-256


@dataclass(frozen=True, slots=True, kw_only=True)
class PassedPiece:
    """The same as the controller passes it on: it need not look inside."""

    data: msgspec.Raw
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Expect:
    """A folder is to be sent."""

    session: str
    folder: Folder
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    missing: tuple[str, ...]  # paths of the files that must be sent


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    session: str
    folder: Folder
    entry: Entry
    offset: int
    data: bytes
    digest: str
    uid: int | None = None
    gid: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PassedWrite:
    """The same as the controller passes it on."""

    session: str
    folder: Folder
    entry: Entry
    offset: int
    data: msgspec.Raw
    digest: str
    uid: int | None = None
    gid: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """All was sent: put it in its place."""

    session: str
    folder: Folder
    entries: tuple[Entry, ...]
    attempt: int = 0  # of whose files it is a copy
    uid: int | None = None
    gid: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """Remove a copy that no attempt has written to, or a draft; what else there is stays."""

    session: str
    folder: Folder
    draft: bool = False  # the draft alone


@dataclass(frozen=True, slots=True, kw_only=True)
class SightAsked:
    """Whether a job would find its working folder."""

    session: str
    path: str  # as it was submitted
    name: str  # of the job's own folder, if it has been given one
    files: tuple[str, ...] = ()  # that its command runs, as they were submitted


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    there: bool
    missing: tuple[str, ...] = ()  # of the files
    own: str = ""  # the folder that the job was given on that node, if it was


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpack:
    """Give a job a folder of its own with what was sent."""

    session: str
    folder: Folder
    name: str
    uid: int | None = None
    gid: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    path: str = ""  # of the folder on that node


VERBS: dict[str, tuple[type[Any], type[Any]]] = {
    "copy-stock": (StockAsked, Stock),
    "copy-kept": (KeptAsked, Kept),
    "copy-list": (ListAsked, Listed),
    "copy-read": (ReadAsked, Piece),
    "copy-expect": (Expect, Expected),
    "copy-write": (Write, Done),
    "copy-commit": (Commit, Done),
    "copy-drop": (Dropped, Done),
    "copy-sees": (SightAsked, Sight),
    "copy-unpack": (Unpack, Done),
}
