"""One change of the group of an attempt, in flight, and what is known of one member."""

from collections.abc import Container, Sequence
from dataclasses import dataclass, field

from treadle.core.member_facts import Place
from treadle.core.member_messages import Form, Member, Switched


@dataclass(slots=True)
class Row:
    """One member whose process lives."""

    place: Place
    ready: bool = False
    leaving: bool = False  # told to leave, or dismissed
    finished: bool = False
    timeout_s: float = 60.0
    until: float | None = None  # the moment at which waiting for it ends


class Rows(dict[Member, Row]):
    """Members whose processes live."""

    def has(self, member: Member) -> bool:
        """Whether it lives and was not told to leave."""
        row = self.get(member)
        return row is not None and not row.leaving

    def match(
        self, places: Sequence[Place], first: Sequence[Member]
    ) -> tuple[list[Member], list[Member], list[Place]]:
        """Members for these places, members for none of them, and places without a member."""
        spare = [member for member in first if self.has(member)]
        spare += [member for member in self if self.has(member) and member not in first]
        kept: list[Member] = []
        missing: list[Place] = []
        for place in places:
            found = next((member for member in spare if self[member].place == place), None)
            if found is None:
                missing.append(place)
            else:
                spare.remove(found)
                kept.append(found)
        return kept, spare, missing


@dataclass(slots=True)
class Switch:
    """The change from the present group to the next one."""

    version: int
    group: list[Member]  # the next one, in rank order; empty: all stop
    leavers: list[Member]
    why: str  # "start", "order", "loss" or "restart"
    plan: str = ""
    carries: bool = False  # the state goes through a folder
    carried: str = ""  # that folder, once it is complete
    stage: str = "asking"  # then "halting", then "forming"
    until: float | None = None
    steps: dict[Member, int] = field(default_factory=dict)  # of `At`
    arrived: dict[Member, int | None] = field(default_factory=dict)
    switched: dict[Member, Switched] = field(default_factory=dict)
    gone: set[Member] = field(default_factory=set)  # leavers that ended before they arrived

    def halting(self, trained: Sequence[Member]) -> list[Member]:
        """Members that have to stop first: newcomers only wait.

        Those that leave are waited for where each has a part of the state.
        """
        if self.why == "loss":
            return self.group
        if self.carries:
            return [member for member in trained if member not in self.gone]
        return [member for member in self.group if member in trained]

    @property
    def has_state(self) -> bool:
        """Whether a member of the next group has the state of the training, or a folder does."""
        return bool(self.carried) or any(
            self.arrived.get(member) is not None for member in self.group
        )

    def form(self, rendezvous: str) -> Form:
        """The order to form the next group: the member with most steps has the state."""
        steps = {m: s for m in self.group if (s := self.arrived.get(m)) is not None}
        source = max(steps, key=lambda member: steps[member]) if steps else self.group[0]
        newest = steps.get(source)
        receivers = [
            member
            for member in self.group
            if member != source and (newest is None or self.arrived.get(member) != newest)
        ]
        return Form(
            version=self.version,
            members=tuple(self.group),
            source=source,
            receivers=tuple(receivers),
            rendezvous=f"{rendezvous}{self.version}",
            plan=self.plan,
            carried=self.carried,
        )

    def stall_s(self, trained: Container[Member]) -> float:
        """The longest time that a member which trained before stood still."""
        stalls = (each.stall_s for member, each in self.switched.items() if member in trained)
        return max(stalls, default=0.0)
