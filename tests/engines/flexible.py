"""A member of an attempt that changes: it speaks the protocol and trains nothing.

    python flexible.py CAN [FILE [LAST]]

Each line of its output says what it did. It runs until it is told to leave or gets SIGTERM. While
FILE exists, newcomers do not become ready, and leavers do not end. If LAST is `last`, its training
is over when a change begins; while FILE exists, it has work to do after that. If LAST is an exit
code, its training is over at once, and the first member ends with that code. If it is `leaves`, the
second member ends with 0 as soon as it trains; while FILE exists, the first has not yet said that
it does so, too. If it is `fails`, newcomers end with 1, and if it is a path, with the exit code
that is in that file.
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


def _hang_if_newcomer(file: str, last: str) -> None:
    joins = os.environ["TREADLE_JOINS"] == "1"
    if joins and last == "fails":
        sys.exit(1)
    if joins and "/" in last and Path(last).exists():
        code = int(Path(last).read_text())
        if code > 128:
            os.kill(os.getpid(), code - 128)
        sys.exit(code)
    if joins and file and Path(file).exists():
        while True:
            time.sleep(1)


def main(can: tuple[str, ...], file: str = "", last: str = "") -> None:
    me, step = os.environ["TREADLE_MEMBER"], 0
    line = socket.socket(fileno=int(os.environ["TREADLE_CHANNEL"]))
    line.sendall(encode(Hello(can)))
    _hang_if_newcomer(file, last)
    line.sendall(encode(Ready()))
    buffer = b""
    while data := line.recv(1 << 16):
        *lines, buffer = (buffer + data).split(b"\n")
        for each in lines:
            order = decode(each)
            assert isinstance(order, Order)
            step += 1
            match order:
                case Prepare() if last == "last":
                    line.sendall(encode(Finished()))
                case Done():
                    end(me, file, last)
                case Prepare():
                    line.sendall(encode(At(order.version, step)))
                case Halt():
                    carried = "/a-folder" if order.carry else ""
                    line.sendall(encode(Arrived(order.version, step, carried)))
                case Form():
                    rank, size = order.members.index(me), len(order.members)
                    plan = f" under {order.plan}" if order.plan else ""
                    sys.stdout.write(f"{me} is rank {rank} of {size}{plan}\n")
                    wait_while(file if last == "leaves" and me == "m0" else "")
                    line.sendall(encode(Switched(order.version, step, 0.125)))
                    trained(line, me, last)
                case Leave():
                    sys.stdout.write(f"{me} leaves\n")
                    wait_while("" if order.stop else file)
                    sys.exit(143 if order.stop else 0)


def trained(line: socket.socket, me: str, last: str) -> None:
    """What follows its first step."""
    if last == "leaves" and me == "m1":
        sys.exit(0)
    if last.isdigit():
        line.sendall(encode(Finished()))


def end(me: str, file: str, last: str) -> None:
    """What follows its training."""
    if last.isdigit():
        sys.exit(int(last) if me == "m0" else 0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.stdout.write(f"{me} has work left\n")
    wait_while(file)
    sys.exit(0)


def wait_while(file: str) -> None:
    while file and Path(file).exists():
        time.sleep(0.02)


if __name__ == "__main__":
    main(tuple(sys.argv[1].split(",")), *sys.argv[2:])
