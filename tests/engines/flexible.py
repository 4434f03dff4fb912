"""A member of an attempt that changes: it speaks the protocol and trains nothing.

    python flexible.py CAN [NEVER_READY_FILE [EXIT_CODE]]

Each line of its output says what it did. It runs until it is told to leave or gets SIGTERM. With an
exit code its training is over at once, and the first member ends with that code.
"""

import os
import socket
import sys
import time
from pathlib import Path

from treadle.core.member_messages import (
    Arrived,
    At,
    Done,
    Finished,
    Form,
    Halt,
    Hello,
    Leave,
    Order,
    Prepare,
    Ready,
    Switched,
    decode,
    encode,
)


def _hang_if_newcomer(never_ready: str) -> None:
    if never_ready and os.environ["TREADLE_JOINS"] == "1" and Path(never_ready).exists():
        while True:
            time.sleep(1)


def main(can: tuple[str, ...], never_ready: str = "", code: str = "") -> None:
    me, step = os.environ["TREADLE_MEMBER"], 0
    line = socket.socket(fileno=int(os.environ["TREADLE_CHANNEL"]))
    line.sendall(encode(Hello(can)))
    _hang_if_newcomer(never_ready)
    line.sendall(encode(Ready()))
    buffer = b""
    while data := line.recv(1 << 16):
        *lines, buffer = (buffer + data).split(b"\n")
        for each in lines:
            order = decode(each)
            assert isinstance(order, Order)
            step += 1
            match order:
                case Prepare():
                    line.sendall(encode(At(order.version, step)))
                case Halt():
                    carried = "/a-folder" if order.carry else ""
                    line.sendall(encode(Arrived(order.version, step, carried)))
                case Form():
                    rank, size = order.members.index(me), len(order.members)
                    plan = f" under {order.plan}" if order.plan else ""
                    sys.stdout.write(f"{me} is rank {rank} of {size}{plan}\n")
                    line.sendall(encode(Switched(order.version, step, 0.125)))
                    if code:
                        line.sendall(encode(Finished()))
                case Done():
                    sys.exit(int(code) if me == "m0" else 0)
                case Leave():
                    sys.stdout.write(f"{me} leaves\n")
                    sys.exit(143 if order.stop else 0)


if __name__ == "__main__":
    main(tuple(sys.argv[1].split(",")), *sys.argv[2:])
