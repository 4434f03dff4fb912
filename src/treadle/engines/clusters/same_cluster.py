"""Which Ray cluster has the jobs of a state folder, so that no other one is given them too.

Agents renew the grants of their nodes while their own cluster says that these are alive. So jobs
run on in a cluster that the controller has left, and nothing that another cluster says about nodes
of the same names proves that they are over (fleet/lost_parts.py).

A cluster is known by a mark in its GCS, which is made once and is gone with it. One that answers at
the address of before is taken for the same, started again: its nodes are the same machines, or the
grants of those that are not run out.
"""

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import msgspec

from treadle.core.errors import InvalidInputError
from treadle.core.wording import several
from treadle.engines.clusters.ray.address import check_answers
from treadle.engines.clusters.ray.lease import KeyValues
from treadle.files import replace

MARK = "cluster"  # a key of the GCS


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster that was used last, as it is written down."""

    address: str  # as it was given; empty: a head of the state folder's own
    mark: str


class Wanted(NamedTuple):
    """The only cluster that will do."""

    mark: str = ""  # empty: any will
    otherwise: str = ""  # why no other will, for people


class LastCluster:
    """The record of one state folder."""

    def __init__(self, path: Path, address: str) -> None:
        """address: of the cluster that is asked for now; empty: a head of its own."""
        self._path, self._address = path, address

    def wanted(self, jobs: int, lost: str = "") -> Wanted:
        """jobs: that hold devices. lost: the address of a cluster that is gone for good.

        Raises InvalidInputError if something answers there.
        """
        known = self._known()
        if not jobs or known is None or known.address == self._address:
            return Wanted()
        if known.address and known.address == lost:
            if _answers(lost):
                raise InvalidInputError(
                    f"something answers at {lost}, so that jobs may run there; start with "
                    f"--address {lost} and let them end, or cancel them"
                )
            return Wanted()
        return Wanted(known.mark, _refusal(known.address, self._address, jobs))

    def keep(self, mark: str) -> None:
        """That one is used from now on."""
        known = Known(address=self._address, mark=mark)
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace(self._path, msgspec.json.encode(known), mode=0o600, sync=True)

    def _known(self) -> Known | None:
        with suppress(FileNotFoundError):
            content = self._path.read_bytes()
            try:
                return msgspec.json.decode(content, type=Known)
            except msgspec.MsgspecError as error:
                raise InvalidInputError(f"{self._path} cannot be read: {error}") from None
        return None


def mark_of(store: KeyValues, wanted: Wanted) -> str:
    """The mark of a cluster, which is made if it has none.

    Raises InvalidInputError if another one is wanted; nothing is made there then.
    """
    found = store.get(MARK)
    if wanted.mark and found != wanted.mark.encode():
        raise InvalidInputError(wanted.otherwise)
    if found is None:
        store.create(MARK, uuid4().hex.encode())
        found = store.get(MARK) or b""
    return found.decode()


def _answers(address: str) -> bool:
    try:
        check_answers(address)
    except InvalidInputError:
        return False
    return True


def _refusal(before: str, now: str, jobs: int) -> str:
    run = f"{several(jobs, 'job')} of this state folder {'runs' if jobs == 1 else 'run'}"
    other = now or "the one on this machine"
    if not before:
        return (
            f"{run} on its own Ray head, and {other} is another cluster; start with --engine ray "
            "--address local and let them end, or cancel them"
        )
    return (
        f"{run} on the Ray cluster at {before}, and {other} is another one; start with --address "
        f"{before} and let them end, or cancel them; if that cluster is gone for good, say so with "
        f"--lost-cluster {before}: then they run again"
    )
