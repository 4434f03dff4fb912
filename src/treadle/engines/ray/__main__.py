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
from pathlib import Path

from treadle.core.errors import InvalidInputError
from treadle.engines.ray.address import check_answers, given_address, here, surroundings
from treadle.engines.ray.head import stop


def leave(address: str) -> int:
    """Remove agents and reservations; the number of nodes. Refused while a controller lives."""
    check_answers(address)
    os.environ |= surroundings(address)
    # Ray reads those when it is imported.
    from treadle.engines.ray import cluster, lease  # noqa: PLC0415

    cluster.connect(address)
    store = cluster.GcsValues()
    holder = lease.Holder(text=f"{here()}, which takes Treadle off it", instance=here())
    held = lease.take(store, holder, pause=threading.Event().wait)
    nodes = cluster.nodes()
    for node in nodes:
        cluster.forget(node.id)
    lease.give_back(store, held)
    return len(nodes)


def main(words: list[str]) -> int:
    if len(words) != 2 or words[0] != "leave":
        sys.stderr.write("treadle: expected leave HOST:PORT of a head, or leave STATE_FOLDER\n")
        return 2
    where = words[1]
    try:
        if Path(where).is_dir():
            ended = stop(Path(where) / "ray")
            sys.stdout.write("the head was ended\n" if ended else "there is no head to end\n")
            return 0
        count = leave(given_address(where, {}))
    except InvalidInputError as error:
        sys.stderr.write(f"treadle: {error}\n")
        return 2
    sys.stdout.write(f"agents and reservations of {count} nodes were removed\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
