"""The kinds that are remembered: a bounded number, of which no owner displaces another's.

One owner can make any number of kinds, by one command after another. So the owner with the most of
them gives one up when there are too many, the one that changed longest ago.
"""

from collections.abc import Iterable, Iterator

from treadle.models.learning.kind_history import History
from treadle.models.learning.kinds import Kind, Source, closeness, owner_of


class KnownKinds:
    """Histories by kind."""

    def __init__(self) -> None:
        self._histories: dict[Kind, History] = {}
        self._by_owner: dict[str, dict[Kind, None]] = {}  # the kind that changed last is last
        self._users: dict[Kind, None] = {}  # kinds of everything that one user ran, likewise

    def __contains__(self, kind: Kind) -> bool:
        return kind in self._histories

    def __getitem__(self, kind: Kind) -> History:
        return self._histories[kind]

    def get(self, kind: Kind) -> History | None:
        return self._histories.get(kind)

    def have_ended(self, kinds: Iterable[Kind], source: Source, runs: int) -> bool:
        """Whether so many jobs of the kind that is so close have ended."""
        return any(
            history.ended >= runs
            for kind in kinds
            if closeness(kind) is source and (history := self._histories.get(kind))
        )

    def keep(self, kind: Kind, history: History, *, kinds_max: int) -> Iterator[Kind]:
        """Remember a kind as the one that changed last; yields those that are forgotten for it."""
        self._histories[kind] = history
        owned = self._by_owner.setdefault(owner_of(kind), {})
        owned.pop(kind, None)
        owned[kind] = None
        if "#" not in kind and closeness(kind) is Source.SAME_USER:
            self._users.pop(kind, None)
            self._users[kind] = None
        while len(self._histories) > kinds_max:
            yield self._forget()

    def newest(self) -> Iterator[tuple[Kind, History]]:
        """All of them, the one that changed last first within each owner."""
        for owned in self._by_owner.values():
            yield from ((kind, self._histories[kind]) for kind in reversed(owned))

    def drop(self, kind: Kind) -> bool:
        """Forget a kind; whether it was known."""
        known = self._histories.pop(kind, None) is not None
        owned = self._by_owner.get(owner_of(kind), {})
        owned.pop(kind, None)
        self._users.pop(kind, None)
        if known and not owned:
            del self._by_owner[owner_of(kind)]
        return known

    def users(self, users_max: int) -> list[Kind]:
        """The kinds of the users whose jobs ended last, by name."""
        return sorted(list(self._users)[-users_max:])

    def _forget(self) -> Kind:
        owner = max(self._by_owner, key=lambda owner: len(self._by_owner[owner]))
        oldest = next(iter(self._by_owner[owner]))
        self.drop(oldest)
        return oldest
