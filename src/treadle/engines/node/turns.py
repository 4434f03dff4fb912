"""Who may use a resource next, among jobs that share devices: the rules, without sockets or clocks.

A job asks for a turn before a stage that keeps a resource busy, and says when the stage is done.
Resources are names: a device ("gpu:0"), or something of the whole machine ("cpu", "storage").
Each has one turn. There are three ways:

    free     no job asks: the hardware shares as it does by itself
    turns    one turn for each resource; who used the least is next
    strict   Muri's order: everybody advances one stage in each round, on different resources

`free` is right for a job that is alone, and wherever turns are not better: see turn_choice.py. A
client asks for all resources of a stage at once and gets all or none, so that two jobs with several
devices cannot wait for each other.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf

LEASE_S = 2.0  # a turn that others wait for is taken back after so long
# A job that comes back for its next turn within this is waited for, if it used less than those who
# are there by more than the slack: otherwise two jobs would take turns one by one, however long
# their stages.
COMES_BACK_S = 0.002
SLACK_S = 0.02


class Way(StrEnum):
    FREE = "free"
    TURNS = "turns"
    STRICT = "strict"


@dataclass(slots=True)
class Client:
    """One job at this machine."""

    name: str
    resources: frozenset[str]  # that it may ask for
    used: dict[str, float] = field(default_factory=dict)  # seconds of each resource
    holds: frozenset[str] = frozenset()
    since: float = 0.0  # when it got what it holds
    wants: frozenset[str] = frozenset()
    asked: int = 0  # number of its request: ties go by age
    in_round: bool = False  # strict: it had its stage in this round
    done_at: float = -inf
    gap_s: float = inf  # from giving back a turn to asking for the next, lately

    def expected_until(self, now: float) -> float:
        """Until when it is worth to wait for its next request; in the past if it is not."""
        if self.holds or self.wants or self.gap_s > COMES_BACK_S:
            return -inf
        until = self.done_at + COMES_BACK_S
        return until if until > now else -inf


class Turns:
    """Grants turns. Every call returns the clients that were granted what they want."""

    def __init__(self, way: Way = Way.TURNS) -> None:
        self.way = way
        self.clients: dict[str, Client] = {}
        self.revoked = 0  # turns that were taken back
        self._holder: dict[str, str] = {}
        self._requests = 0

    # -- clients --------------------------------------------------------------------------------

    def join(self, name: str, resources: Iterable[str]) -> None:
        """A newcomer has used as much as the one that used least: it owes nothing, nor is owed."""
        client = Client(name, frozenset(resources))
        for resource in client.resources:
            others = [c.used.get(resource, 0.0) for c in self.clients.values()]
            client.used[resource] = min(others, default=0.0)
        self.clients[name] = client

    def leave(self, name: str, now: float) -> list[str]:
        """It is gone, dead or alive: what it held is free at once."""
        client = self.clients.pop(name, None)
        if client is None:
            return []
        self._free(client, now)
        return self._grant(now)

    def shares(self, name: str) -> bool:
        """Whether another client may ask for one of its resources."""
        mine = self.clients[name].resources
        return any(mine & c.resources for c in self.clients.values() if c.name != name)

    # -- turns ----------------------------------------------------------------------------------

    def ask(self, name: str, resources: Iterable[str], now: float) -> list[str]:
        """A client wants a turn of each of them, and has given back what it had."""
        client = self.clients[name]
        self._free(client, now)
        gap_s = now - client.done_at
        client.gap_s = gap_s if client.gap_s == inf else 0.8 * client.gap_s + 0.2 * gap_s
        self._requests += 1
        client.wants, client.asked = frozenset(resources) & client.resources, self._requests
        return self._grant(now)

    def done(self, name: str, now: float) -> list[str]:
        self._free(self.clients[name], now)
        return self._grant(now)

    def change(self, way: Way, now: float) -> list[str]:
        self.way = way
        for client in self.clients.values():
            client.in_round = False
        return self._grant(now)

    def expire(self, now: float) -> list[str]:
        """Take back turns that were held for too long while others want them."""
        for client in self.clients.values():
            late = client.holds and now - client.since >= LEASE_S
            if late and self._wanted(client.holds, but=client.name):
                self.revoked += 1
                self._free(client, now)
        return self._grant(now)

    def expires_at(self, now: float) -> float:
        """When `expire` has something to do next."""
        moments = [
            client.since + LEASE_S
            for client in self.clients.values()
            if client.holds and self._wanted(client.holds, but=client.name)
        ]
        if any(client.wants for client in self.clients.values()):
            expected = (client.expected_until(now) for client in self.clients.values())
            moments += [moment for moment in expected if moment > now]
        return min(moments, default=inf)

    # -- inside ---------------------------------------------------------------------------------

    def _wanted(self, resources: frozenset[str], *, but: str) -> bool:
        return any(c.wants & resources for c in self.clients.values() if c.name != but)

    def _free(self, client: Client, now: float) -> None:
        for resource in client.holds:
            client.used[resource] += now - client.since
            del self._holder[resource]
        if client.holds:
            client.done_at = now
        client.holds = client.wants = frozenset()

    def _grant(self, now: float) -> list[str]:
        waiting = sorted((c for c in self.clients.values() if c.wants), key=self._rank)
        if self.way is Way.STRICT:
            waiting = self._of_round(waiting)
        granted: list[str] = []
        kept: set[str] = set()  # for those before, who wait for one of several resources
        for client in waiting:
            if self.way is Way.FREE or self._may_have(client, kept, now):
                self._give(client, now)
                granted.append(client.name)
            else:
                kept |= client.wants
        return granted

    def _may_have(self, client: Client, kept: set[str], now: float) -> bool:
        if client.wants & kept or any(resource in self._holder for resource in client.wants):
            return False
        return self.way is Way.STRICT or not any(
            other.expected_until(now) > now
            and any(
                other.used[resource] + SLACK_S < client.used[resource]
                for resource in client.wants & other.resources
            )
            for other in self.clients.values()
        )

    def _give(self, client: Client, now: float) -> None:
        if self.way is not Way.FREE:
            client.holds, client.since, client.in_round = client.wants, now, True
            self._holder |= dict.fromkeys(client.holds, client.name)
        client.wants = frozenset()

    def _rank(self, client: Client) -> tuple[float, int]:
        return max(client.used[resource] for resource in client.wants), client.asked

    def _of_round(self, waiting: list[Client]) -> list[Client]:
        """Those that have not had their stage in this round; it ends when everybody had one.

        A round is of the clients that share something with each other.
        """
        found = []
        for client in waiting:
            group = [c for c in self.clients.values() if c.resources & client.resources]
            if not any(each.holds for each in group):
                if not all(each.wants for each in group):
                    continue  # One is between two stages: the round waits.
                if all(each.in_round for each in group):
                    for each in group:
                        each.in_round = False
            if not client.in_round:
                found.append(client)
        return found
