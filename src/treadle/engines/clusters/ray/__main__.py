"""Take Treadle off a Ray cluster, or end the head that `treadle up --engine ray` started.

    python -m treadle.engines.clusters.ray leave HOST:PORT [-y]  what a cluster has of it
    python -m treadle.engines.clusters.ray leave STATE_FOLDER    the head of that folder

`treadle down` leaves jobs running, and with them what they need: agents, and the reservation of
their devices. This removes both. Jobs that still run are killed within seconds: of
a cluster it says how many, and asks first, unless it is told -y or --yes. Of a head of its own it
does not ask. Jobs of a node that cannot be reached go on as --failover says.
"""

import os
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from treadle.core.errors import InvalidInputError
from treadle.core.wording import several
from treadle.engines.agent.node_grant import NodeGrant
from treadle.engines.clusters.ray.address import (
    check_answers,
    check_token,
    given_address,
    here,
    surroundings,
)
from treadle.engines.clusters.ray.head import had_one, stop
from treadle.engines.node.fence import LOOK_EVERY_S

ASKED_AT_ONCE = 16  # agents


def leave(address: str, *, yes: bool) -> int:
    """Remove agents and reservations; the number of nodes that had any.

    yes: also if jobs run. Refused while a controller lives.
    """
    check_answers(address)
    check_token(os.environ)
    os.environ |= surroundings(address)
    # Ray reads those when it is imported.
    from treadle.engines.clusters.ray import cluster, lease  # noqa: PLC0415

    with _quiet():  # Ray warns of what the sentence says.
        cluster.check_lets_in(address)
    cluster.connect(address)
    store = cluster.GcsValues()
    holder = lease.Holder(text=f"{here()}, which takes Treadle off it", instance=here())
    held = lease.take(store, holder, pause=threading.Event().wait)
    found, there = cluster.kept(), {node.id for node in cluster.nodes()}
    try:
        with ThreadPoolExecutor(ASKED_AT_ONCE) as pool:
            _confirm(pool.map(cluster.running_on, found), yes=yes)
            list(pool.map(cluster.end_on, found))
        for node_id in found | there:
            cluster.forget(node_id)
    finally:
        lease.give_back(store, held)
    return len(found & there)


def _confirm(running: Iterable[dict[str, int]], *, yes: bool) -> None:
    """Raise InvalidInputError if jobs run, and it is not said that they may be killed.

    running: ranks by job, of each node.
    """
    ranks = sum((Counter(each) for each in running), Counter[str]())
    if not ranks:
        return
    jobs, many = several(len(ranks), "job"), len(ranks) > 1
    said = f"{jobs} with {several(ranks.total(), 'rank')} {'run' if many else 'runs'} there"
    killed = f"{said} and {'are' if many else 'is'} killed in {LOOK_EVERY_S:.0f} s"
    if yes:
        sys.stdout.write(f"{killed}\n")
        return
    if sys.stdin.isatty():
        sys.stdout.write(f"{killed}; go on? [y/N] ")
        sys.stdout.flush()
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            return
        raise InvalidInputError("nothing was removed")
    raise InvalidInputError(f"{killed} if Treadle leaves; say that this is meant with -y")


@contextmanager
def _quiet() -> Iterator[None]:
    """Nothing is written to the standard error, by code that is not Python's either."""
    kept = os.dup(2)
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def end_head(folder: Path) -> str:
    """What was done. Raises InvalidInputError if the folder never had a head of its own."""
    if not had_one(folder / "ray"):
        raise InvalidInputError(
            f"{folder} has no Ray head of its own; agents and reservations in another cluster "
            "stay: python -m treadle.engines.clusters.ray leave HOST:PORT, of its head, removes "
            "them"
        )
    ended = stop(folder / "ray")
    if ended is None:
        return "the head was ended before"
    if not ended:
        return "no process of the head was left; its files were removed"
    with suppress(OSError):
        for node in (folder / "nodes").iterdir():
            NodeGrant.revoke(node)
    processes = several(ended, "process", "processes")
    killed = f"jobs that still run there are killed within {LOOK_EVERY_S:.0f} s"
    return f"the head was ended, {processes} of Ray; {killed}"


def main(words: list[str]) -> int:
    yes = {"-y", "--yes"}
    given = [word for word in words if word not in yes]
    if len(given) != 2 or given[0] != "leave":
        sys.stderr.write("treadle: expected leave HOST:PORT of a head, or leave STATE_FOLDER\n")
        return 2
    where = given[1]
    try:
        if Path(where).is_dir():
            sys.stdout.write(f"{end_head(Path(where))}\n")
            return 0
        count = leave(given_address(where, {}), yes=bool(yes & {*words}))
    except InvalidInputError as error:
        sys.stderr.write(f"treadle: {error}\n")
        return 2
    sys.stdout.write(f"agents and reservations of {several(count, 'node')} were removed\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
