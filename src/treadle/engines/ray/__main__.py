"""Take Treadle off a Ray cluster, or end the head that `treadle up --engine ray` started.

    python -m treadle.engines.ray leave HOST:PORT     agents and reservations of a cluster
    python -m treadle.engines.ray leave STATE_FOLDER  the head of that folder, all its processes

`treadle down` leaves jobs running, and with them what they need: agents, and the reservation of
their devices. This removes both. Jobs that still run are killed when the leases of their nodes have
run out, 15 seconds later.
"""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from treadle.core.errors import InvalidInputError
from treadle.core.wording import several
from treadle.engines.ray.address import (
    check_answers,
    check_token,
    given_address,
    here,
    surroundings,
)
from treadle.engines.ray.head import had_one, stop


def leave(address: str) -> int:
    """Remove agents and reservations; the number of nodes that had any.

    Refused while a controller lives.
    """
    check_answers(address)
    check_token(os.environ)
    os.environ |= surroundings(address)
    # Ray reads those when it is imported.
    from treadle.engines.ray import cluster, lease  # noqa: PLC0415

    with _quiet():  # Ray warns of what the sentence says.
        cluster.check_lets_in(address)
    cluster.connect(address)
    store = cluster.GcsValues()
    holder = lease.Holder(text=f"{here()}, which takes Treadle off it", instance=here())
    held = lease.take(store, holder, pause=threading.Event().wait)
    found, there = cluster.kept(), {node.id for node in cluster.nodes()}
    for node_id in found | there:
        cluster.forget(node_id)
    lease.give_back(store, held)
    return len(found & there)


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
            "stay: python -m treadle.engines.ray leave HOST:PORT, of its head, removes them"
        )
    return "the head was ended" if stop(folder / "ray") else "the head was ended before"


def main(words: list[str]) -> int:
    if len(words) != 2 or words[0] != "leave":
        sys.stderr.write("treadle: expected leave HOST:PORT of a head, or leave STATE_FOLDER\n")
        return 2
    where = words[1]
    try:
        if Path(where).is_dir():
            sys.stdout.write(f"{end_head(Path(where))}\n")
            return 0
        count = leave(given_address(where, {}))
    except InvalidInputError as error:
        sys.stderr.write(f"treadle: {error}\n")
        return 2
    sys.stdout.write(f"agents and reservations of {several(count, 'node')} were removed\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
