"""A file system that hangs, for real: FUSE whose server reads requests and answers none.

The server is this test itself: a thread that reads from /dev/fuse. It answers the first request
(INIT), so that the mount is up, and takes every later request without an answer. A process that
waits for such an answer cannot be killed, as with NFS whose server is gone.
"""

import ctypes
import os
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

libc = ctypes.CDLL(None, use_errno=True)
MNT_FORCE, MNT_DETACH = 1, 2
IN_HEADER = struct.Struct("<IIQQIIII")  # length, opcode, unique, node, uid, gid, pid, padding
OUT_HEADER = struct.Struct("<IiQ")
INIT_OUT = struct.Struct("<IIIIHHIIHHI28x")
FORGETS = (2, 42)  # FORGET and BATCH_FORGET have no answer


class HungMount:
    """One mount; `heal` ends all requests with an error, as a forced unmount does."""

    def __init__(self, point: Path) -> None:
        self.point = point
        self.requests = 0  # that were taken and not answered
        self._device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        options = f"fd={self._device},rootmode=40000,user_id=0,group_id=0,allow_other"
        # libc's mount sends no request; INIT is answered by the thread.
        if libc.mount(b"hung", str(point).encode(), b"fuse", 0, options.encode()):
            error = os.strerror(ctypes.get_errno())
            os.close(self._device)
            pytest.skip(f"FUSE cannot be mounted here: {error}")
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                request = os.read(self._device, 1 << 20)
                _, opcode, unique, *_ = IN_HEADER.unpack_from(request)
                if opcode == 26:  # INIT
                    body = INIT_OUT.pack(7, 31, 65536, 0, 16, 12, 65536, 1, 32, 0, 0)
                    header = OUT_HEADER.pack(OUT_HEADER.size + len(body), 0, unique)
                    os.write(self._device, header + body)
                elif opcode not in FORGETS:
                    self.requests += 1

    def heal(self) -> None:
        libc.umount2(str(self.point).encode(), MNT_FORCE)
        libc.umount2(str(self.point).encode(), MNT_DETACH)

    def close(self) -> None:
        self.heal()
        self._thread.join(5)
        os.close(self._device)


@contextmanager
def hung_mount(point: Path) -> Iterator[HungMount]:
    if os.geteuid() != 0 or not Path("/dev/fuse").exists():
        pytest.skip("needs root and /dev/fuse to make a file system that hangs")
    point.mkdir()
    mount = HungMount(point)
    try:
        yield mount
    finally:
        mount.close()
