#!/usr/bin/env python3
"""Stands in for nvidia-cuda-mps-control, which a machine without a GPU does not have.

It speaks the part of the protocol that Treadle uses, through real processes and a real socket:
`-d` starts a daemon, commands on stdin are answered by it. A file `hang` in its pipe folder makes
it silent, as a daemon whose server hangs.
"""

import os
import socket
import sys
import time
from pathlib import Path

PIPES = Path(os.environ["CUDA_MPS_PIPE_DIRECTORY"])


def serve(ready: int) -> None:
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(PIPES / "control"))
    server.listen(4)
    (PIPES / "nvidia-cuda-mps-control.pid").write_text(str(os.getpid()))
    os.close(ready)
    while True:
        connection, _ = server.accept()
        command = connection.recv(200).decode().strip()
        while (PIPES / "hang").exists():
            time.sleep(3600)
        if command == "get_server_list":
            connection.sendall(f"{os.getpid()}\n".encode())
        connection.close()
        if command == "quit":
            return


def main() -> int:
    if sys.argv[1:] == ["-d"]:
        waits, ready = os.pipe()
        if os.fork() == 0:
            os.setsid()
            null = os.open(os.devnull, os.O_RDWR)
            for number in (0, 1, 2):
                os.dup2(null, number)
            serve(ready)
            os._exit(0)
        os.close(ready)
        os.read(waits, 1)
        return 0
    client = socket.socket(socket.AF_UNIX)
    client.connect(str(PIPES / "control"))
    client.sendall(sys.stdin.read().encode())
    while answer := client.recv(4096):
        sys.stdout.write(answer.decode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
