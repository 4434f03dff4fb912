"""A member of an attempt that changes: it speaks the protocol and trains nothing.

    python flexible.py CAN [FILE [LAST]]

Each line of its output says what it did. It runs until it is told to leave or gets SIGTERM. While
FILE exists, newcomers do not become ready, and leavers do not end. If LAST is `last`, its training
is over when a change begins; while FILE exists, it has work to do after that.
"""

import os
import signal
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


def main(can: tuple[str, ...], file: str = "", last: str = "") -> None:
    me, step = os.environ["TREADLE_MEMBER"], 0
    line = socket.socket(fileno=int(os.environ["TREADLE_CHANNEL"]))
    line.sendall(encode(Hello(can)))
    if os.environ["TREADLE_JOINS"] == "1" and file and Path(file).exists():
        wait_while("/")
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
                    line.sendall(encode(Finished() if last else At(order.version, step)))
                case Done():
                    work_on(me, file)
                case Halt():
                    carried = "/a-folder" if order.carry else ""
                    line.sendall(encode(Arrived(order.version, step, carried)))
                case Form():
                    rank, size = order.members.index(me), len(order.members)
                    plan = f" under {order.plan}" if order.plan else ""
                    sys.stdout.write(f"{me} is rank {rank} of {size}{plan}\n")
                    line.sendall(encode(Switched(order.version, step, 0.125)))
                case Leave():
                    sys.stdout.write(f"{me} leaves\n")
                    wait_while("" if order.stop else file)
                    sys.exit(143 if order.stop else 0)


def work_on(me: str, file: str) -> None:
    """What a script does after its training, for example write its model."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.stdout.write(f"{me} has work left\n")
    wait_while(file)
    sys.exit(0)


def wait_while(file: str) -> None:
    while file and Path(file).exists():
        time.sleep(0.02)


if __name__ == "__main__":
    main(tuple(sys.argv[1].split(",")), *sys.argv[2:])
