"""What an engine needs to launch a job, and how an attempt is named."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from treadle.core.job import JobId

CHECKPOINT_DIR = "TREADLE_CHECKPOINT_DIR"  # where a job keeps its checkpoints; users may set it


class AttemptId(NamedTuple):
    """One attempt at a job; each order that launches processes begins another.

    Job numbers begin again in a new store, and a restored backup gives attempt numbers a second
    time. The nonce is never given twice: an attempt with another nonce is another attempt, and
    nothing that it left behind may be believed.
    """

    job: JobId
    number: int  # from 1
    nonce: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Team:
    """Of an attempt whose members may change over nodes: who coordinates them, and their places."""

    term: int  # the order by which the controller appointed that node; another term is refused
    leader: str  # the node whose supervisor coordinates
    address: str
    port: int
    node: str  # of this part
    devices: tuple[tuple[str, int], ...]  # of all nodes, in rank order


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The share that one node has in an attempt on several nodes. Its ranks are consecutive."""

    node_rank: int
    addresses: tuple[str, ...]  # of the nodes, in order of their node ranks
    first_rank: int  # the global rank of its first process
    ranks: int  # processes on this node
    world_size: int  # processes on all nodes
    port: int  # of the first node, for the ranks to meet at
    plan: str = ""  # of the whole attempt: the allocation of a part has none
    team: Team | None = None  # None: its ranks stay as they are

    @property
    def master(self) -> str:
        return self.addresses[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One attempt at a job. Its devices are in the order."""

    job: JobId
    attempt: int  # number of the attempt, from 1
    nonce: str = ""  # of the attempt; see AttemptId
    submission: str = ""  # nonce of the job's submission: checkpoints of others are not its own
    command: tuple[str, ...]
    workdir: str
    archive: str = ""  # the digest of its code, for nodes that do not see that folder
    ranks: int  # processes; each sees all devices of the job, as under torchrun
    launcher: bool = False  # the command starts the ranks itself (torchrun, accelerate, ...)
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)  # environment too; masked in output
    uid: int | None = None  # run as this user; None: as the user who runs the engine
    gid: int | None = None
    user: str = ""
    stop_signal: str = "SIGTERM"
    grace_s: float = 30.0
    time_limit_s: float | None = None  # what is left of it
    memory_gib: float | None = None  # host memory of all ranks on a node together; None: no limit
    cpus: float | None = None  # cores of all ranks on a node together; None: no limit
    device_memory_gib: float | None = None  # of each device, as its user says
    may_share: bool = False  # other jobs may be put on its devices while it runs
    log_bytes_max: int = 256 * 2**20  # of one rank: head and tail are kept
    warm: bool = True  # it may be forked from an interpreter that has its modules imported
    resumed: bool = False  # an earlier attempt has run
    elastic: bool = True  # it may be given other devices while it runs
    # It goes on from what it keeps in the folder of its checkpoints, where that is.
    keeps_checkpoints: bool = False
    part: Part | None = None  # if it runs on several nodes: `ranks` are those of this one
    # What the controller believes; an engine that does not measure puts it into JobStarted.
    iterations_done: float = 0.0
    iterations_per_s: float = 1.0

    @property
    def id(self) -> AttemptId:
        return AttemptId(self.job, self.attempt, self.nonce)
