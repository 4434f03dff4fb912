"""The lease of the controller, in the key-value store of Ray's GCS.

    lease/000000000007   who took epoch 7; created once, never overwritten: that is the taking
    beat/000000000007    counts up while the holder is alive; "given back" when it has left

No clocks are compared. A controller that finds a holder watches its beat: if it changes, the holder
lives and the newcomer is refused; if it does not for LEASE_S, the lease has run out. Two that find
so at the same moment try to create the same key, and one of them does.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import msgspec

from treadle.core.errors import InvalidInputError

LEASE_S = 10.0
BEAT_EVERY_S = 2.0
GIVEN_BACK = b"given back"


class KeyValues(Protocol):
    """What is needed of the GCS. All methods block."""

    def create(self, key: str, value: bytes) -> bool:
        """False if the key is there already."""
        ...

    def put(self, key: str, value: bytes) -> None: ...

    def get(self, key: str) -> bytes | None: ...

    def keys(self, prefix: str) -> list[str]: ...

    def delete(self, key: str) -> None: ...


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """Who took an epoch."""

    text: str  # for people
    instance: str  # the same for all controllers of one state folder, of which one can run


class Lease(NamedTuple):
    """An epoch that was taken."""

    epoch: int


def take(
    store: KeyValues,
    holder: Holder,
    *,
    above: int = 0,
    resumes: int = 0,
    lease_s: float = LEASE_S,
    pause: Callable[[float], object],
    before: Callable[[], object] = lambda: None,
) -> Lease:
    """Take the next epoch, or the one that this controller has; refuses while another lives.

    above: the epochs that this controller has seen, perhaps in a cluster that is gone.
    before: raises InvalidInputError if the lease of another one, which has run out, is to be left
    as it is: who lost it would take a newcomer that is refused later for a follower.
    """
    while True:
        newest = _newest(store)
        if newest:
            found = msgspec.json.decode(store.get(_lease(newest)) or b"null", type=Holder | None)
            if found is not None and found.instance == holder.instance:
                if newest == resumes:
                    return Lease(newest)
            elif found is not None:
                _wait_out(store, newest, found, lease_s=lease_s, pause=pause)
                before()
        # A cluster that was started again has forgotten; its agents have not.
        epoch = resumes if resumes > newest else max(newest, above) + 1
        if not store.create(_lease(epoch), msgspec.json.encode(holder)):
            continue
        if _newest(store) > epoch:  # It was taken and given on in between, and cleared away.
            store.delete(_lease(epoch))
            continue
        _forget_before(store, epoch)
        return Lease(epoch)


def renew(store: KeyValues, lease: Lease, beat: int) -> Holder | None:
    """Say that the holder lives; who has taken the lease, if somebody did."""
    newest = _newest(store)
    if newest > lease.epoch:
        return msgspec.json.decode(store.get(_lease(newest)) or b"null", type=Holder | None)
    store.put(_beat(lease.epoch), str(beat).encode())
    return None


def give_back(store: KeyValues, lease: Lease) -> None:
    store.put(_beat(lease.epoch), GIVEN_BACK)


def _wait_out(
    store: KeyValues,
    epoch: int,
    holder: Holder,
    *,
    lease_s: float,
    pause: Callable[[float], object],
) -> None:
    """Return when that lease has run out; raise InvalidInputError when its holder is seen alive."""
    first, waited_s, step_s = store.get(_beat(epoch)), 0.0, min(0.25, lease_s / 8)
    while first != GIVEN_BACK and waited_s < lease_s:
        pause(step_s)
        waited_s += step_s
        seen = store.get(_beat(epoch))
        if seen == GIVEN_BACK:
            return
        if seen != first:
            raise InvalidInputError(
                f"another Treadle manages this Ray cluster: {holder.text}; stop it there with "
                "treadle down, or use that one"
            )


def _newest(store: KeyValues) -> int:
    return max((int(key.partition("/")[2]) for key in store.keys("lease/")), default=0)


def _forget_before(store: KeyValues, epoch: int) -> None:
    for key in [*store.keys("lease/"), *store.keys("beat/")]:
        if int(key.partition("/")[2]) < epoch:
            store.delete(key)


def _lease(epoch: int) -> str:
    return f"lease/{epoch:012d}"


def _beat(epoch: int) -> str:
    return f"beat/{epoch:012d}"
