"""Who held which devices, and when."""

from dataclasses import dataclass

from treadle.wire.jobs import described


@dataclass(frozen=True, slots=True, kw_only=True)
class Spell:
    """A time in which a job held the same devices under the same plan."""

    job: str
    name: str
    user: str
    tenant: str
    devices: tuple[str, ...]
    from_at: float
    to_at: float | None  # None: it holds them still
    attempt: int
    plan: str = ""
    sizes: tuple[int, ...] = ()  # that it may have


@dataclass(frozen=True, slots=True, kw_only=True)
class SpellNode:
    name: str
    device_type: str
    devices: int
    from_at: float | None = described(None, "When it joined; None: before what is kept.")
    to_at: float | None = described(None, "When it was lost; None: it is there.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedSpell:
    """A time in which a device took no new work."""

    device: str
    from_at: float | None  # None: before what is kept
    to_at: float | None  # None: it is closed still
    cause: str
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SpellPage:
    spells: tuple[Spell, ...]
    nodes: tuple[SpellNode, ...]
    closed: tuple[ClosedSpell, ...]
    since_at: float  # from when on it is whole
    until_at: float
    begins_at: float | None = described(
        None, "When the store begins: of earlier moments nothing is known."
    )
    cut: bool = described(False, "There was more than is answered at once; the newest are here.")
