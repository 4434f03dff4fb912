"""What was written down during a run: by the ranks themselves, and by the agents of the nodes.

All moments are seconds since the start of the machine, which all nodes share.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from treadle.engines.agent.end_facts import FENCED
from treadle.engines.node.attempt_folders import AttemptFolders, read_status, read_supervisor


class Span(NamedTuple):
    """An attempt, or one rank of it, was on devices of a node from then to then."""

    job: str
    attempt: int
    node: str
    devices: tuple[int, ...]
    since: float
    until: float
    by: str  # who says so

    def __str__(self) -> str:
        devices = ",".join(map(str, self.devices))
        when = f"{self.since:.3f} to {self.until:.3f}"
        return f"{self.job}/{self.attempt} on {self.node}:{devices} {when} ({self.by})"


@dataclass(frozen=True, slots=True, kw_only=True)
class RankRecord:
    """One process."""

    name: str
    span: Span
    tag: str  # of the attempt, with its nonce
    rank: int
    world: int
    first_step: int
    last_step: int
    code: int | None  # with which it ended by itself; None: it was killed, or lost its peers

    @property
    def key(self) -> tuple[str, int]:
        return self.span.job, self.span.attempt


def rank_records(folder: Path, nodes: Mapping[int, str], state: Path) -> list[RankRecord]:
    """nodes: names by the inode of their network namespace; without any, agents are believed."""
    agents = {path.read_text(): path.parent.name for path in state.glob("nodes/*/instance")}

    def node_of(head: Mapping[str, Any]) -> str | None:
        return nodes.get(head["net"]) if nodes else agents.get(head["tag"].partition("-")[0])

    return [_rank_record(path, node_of) for path in sorted(folder.iterdir())]


def _rank_record(path: Path, node_of: Callable[[Mapping[str, Any]], str | None]) -> RankRecord:
    # A rank that is killed may leave half a line.
    whole = path.read_text().rpartition("\n")[0].splitlines()
    head, *rest = map(json.loads, whole)
    steps = [line["step"] for line in rest if "step" in line]
    span = Span(
        head["job"],
        head["attempt"],
        node_of(head) or "elsewhere",
        (head["device"],),
        head["begin"],
        max([head["begin"], *(line["at"] for line in rest)]),
        f"rank {head['rank']}",
    )
    return RankRecord(
        name=head["name"],
        span=span,
        tag=head["tag"],
        rank=head["rank"],
        world=head["world"],
        first_step=head["step"],
        last_step=max([head["step"], *steps]),
        code=next((line["code"] for line in rest if "code" in line), None),
    )


def standstill_s(ranks: Iterable[RankRecord]) -> float:
    """The longest time that a job stood still between two of its attempts."""
    by_job: dict[str, dict[int, list[Span]]] = defaultdict(lambda: defaultdict(list))
    for record in ranks:
        by_job[record.span.job][record.span.attempt].append(record.span)
    found = [0.0]
    for attempts in by_job.values():
        for before, after in pairwise(sorted(attempts)):
            last = max(span.until for span in attempts[before])
            found.append(min(span.since for span in attempts[after]) - last)
    return max(found)


class AgentRecords(NamedTuple):
    """What the agents of all nodes have on disk."""

    spans: list[Span]
    wrong: list[str]
    fenced: set[str]  # nodes whose lease ran out while something ran there


def agent_records(state: Path) -> AgentRecords:
    found = AgentRecords([], [], set())
    for root in sorted((state / "nodes").iterdir()):
        folders = AttemptFolders(root)
        found.wrong.extend(f"{root.name} still has a mark of {each}" for each in folders.live())
        for each in _spans(root.name, folders):
            if isinstance(each, Span):
                found.spans.append(each)
            else:
                found.wrong.append(each)
        if FENCED in _causes(folders):
            found.fenced.add(root.name)
    return found


def _causes(folders: AttemptFolders) -> set[str]:
    jobs = [path.name for path in (folders.root / "jobs").iterdir()]
    marks = [mark for job in jobs for mark in folders.attempts(job)]
    found = [read_status(folders.path(*mark)) for mark in marks]
    return {status.cause for status in found if status is not None}


def _spans(node: str, folders: AttemptFolders) -> Iterator[Span | str]:
    for job in sorted(path.name for path in (folders.root / "jobs").iterdir()):
        for mark in folders.attempts(job):
            folder = folders.path(*mark)
            status, supervisor = read_status(folder), read_supervisor(folder)
            if status is None or not status.ended:
                yield f"{node} has no end of {job}/{mark.number}"
            elif status.began is not None and supervisor is not None:
                until = status.began + (status.ran_s or 0.0)
                by = f"agent of {node}"
                devices = supervisor.devices
                yield Span(job, mark.number, node, devices, status.began, until, by)
