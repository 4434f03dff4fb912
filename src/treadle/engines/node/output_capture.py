"""Captures the output of ranks on disk: masks secrets, keeps head and tail, survives a full disk.

Part of the supervisor: it imports the standard library alone.
"""

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

MASK = b"***"
MASKED_FROM = 4  # shorter values would mask half of any text
LINE_MASKED_FROM = 8  # each line of a secret of several lines, if it is this long
SILENT_S = 0.5  # after a failed write, output is dropped for so long without another try


class Mask:
    """Hides the values of secrets in a stream, also where a value is cut in two by a read.

    Secrets may contain or overlap one another. So all of them are looked for in the text as it
    came, and each stretch that they cover together becomes one mask.
    """

    def __init__(self, secrets: Sequence[str]) -> None:
        found: set[bytes] = set()
        for secret in secrets:
            data = secret.encode("utf-8", "surrogateescape")
            if len(data) >= MASKED_FROM:
                found.add(data)
            lines = (line.strip() for line in data.split(b"\n"))
            found.update(line for line in lines if len(line) >= LINE_MASKED_FROM)
        self._secrets = sorted(found, key=len, reverse=True)
        self._kept = b""
        self._masked = 0  # bytes at the start of `_kept` whose mask was shown already

    def hide(self, data: bytes) -> bytes:
        """The data without secrets; an end that may be the start of a secret is kept back."""
        if not self._secrets:
            return data
        data = self._kept + data
        spans = _joined([(0, self._masked), *self._found(data)])
        cut = min(_begins_at(data, secret) for secret in self._secrets)
        shown = self._shown(data[:cut], spans)
        self._kept = data[cut:]
        if cut > 0:
            self._masked = max((end - cut for start, end in spans if start < cut < end), default=0)
        return shown

    def rest(self) -> bytes:
        """What was kept back, at the end of the stream; most of a secret is masked as well."""
        data, self._kept = self._kept, b""
        spans = [(0, self._masked), *self._found(data)]
        for secret in self._secrets:
            at = _begins_at(data, secret)
            if len(data) - at >= max(MASKED_FROM, len(secret) / 2):
                spans.append((at, len(data)))
        shown = self._shown(data, _joined(spans))
        self._masked = 0
        return shown

    def _found(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Where secrets begin and end; one may overlap itself."""
        for secret in self._secrets:
            start = at = data.find(secret)
            while at >= 0:
                end = at + len(secret)
                at = data.find(secret, at + 1)
                if not 0 <= at < end:
                    yield start, end
                    start = at

    def _shown(self, data: bytes, spans: Sequence[tuple[int, int]]) -> bytes:
        pieces, at = [], 0
        for start, end in spans:
            if start >= len(data):
                break
            pieces.append(data[at:start])
            if start > 0 or not self._masked:
                pieces.append(MASK)
            at = end
        return b"".join((*pieces, data[at:]))


def _joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same stretches in order, with those that overlap made one."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        elif start < end:
            joined.append((start, end))
    return joined


def _begins_at(data: bytes, secret: bytes) -> int:
    """Where a secret may begin that the end of the data cuts off."""
    at = data.find(secret[0], max(0, len(data) - len(secret) + 1))
    while at >= 0:
        if secret.startswith(data[at:]):
            return at
        at = data.find(secret[0], at + 1)
    return len(data)


class Log:
    """The output of one rank on disk: its head, and the newest pieces of its tail.

    `rank-0.log` holds the first half of the limit. What comes later goes to files of a quarter,
    named by where they begin, `rank-0.<offset>.log`, of which the newest two are kept.
    """

    def __init__(self, folder: str, name: str, bytes_max: int) -> None:
        self._folder, self._name = folder, name
        self._room = max(1, bytes_max // 2)  # bytes that the present file may still take
        self._piece_max = max(1, bytes_max // 4)
        self._offset = 0  # of the next byte, counted over all that was written
        self._tails: list[tuple[str, int]] = []  # path and size, oldest first
        self._file = open_new(f"{folder}/{name}.log")
        self._silent_until = 0.0  # after a failed write
        self._unsaid = 0  # bytes that could not be written since the last note
        self.lost = 0  # bytes that the limit removed
        self.dropped = 0  # bytes that did not fit on the disk

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            if self._room == 0 and not self._turn():
                return self._drop(len(view))
            count = self._put(view[: self._room])
            if count == 0:
                return self._drop(len(view))
            view = view[count:]
        return None

    def _put(self, data: memoryview | bytes) -> int:
        """How many bytes the disk took."""
        if self._silent_until and time.monotonic() < self._silent_until:
            return 0
        try:
            if self._unsaid:
                self._wrote(os.write(self._file, self._note()[: self._room]))
                self._unsaid = 0
                if self._room == 0:
                    return 0
            count = os.write(self._file, data[: self._room])
        except OSError:
            self._silent_until = time.monotonic() + SILENT_S
            return 0
        self._silent_until = 0.0
        self._wrote(count)
        return count

    def finish(self) -> None:
        """The output is over: say what was lost, also where the disk is still full.

        The last bytes then make way for it: what they took of the disk is there.
        """
        if not self._unsaid:
            return
        note = self._note()
        try:
            os.write(self._file, note)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._file, max(0, os.fstat(self._file).st_size - len(note)))
                os.write(self._file, note)
        self._unsaid = 0

    def _note(self) -> bytes:
        return b"\n[treadle: %d bytes of output were lost, the disk was full]\n" % self._unsaid

    def _wrote(self, count: int) -> None:
        self._offset += count
        self._room -= count
        if self._tails:
            self._tails[-1] = (self._tails[-1][0], self._tails[-1][1] + count)

    def _turn(self) -> bool:
        """Begin the next file of the tail; the oldest of three is deleted."""
        path = f"{self._folder}/{self._name}.{self._offset}.log"
        if len(self._tails) == 2:
            gone, size = self._tails.pop(0)
            self.lost += size
            with suppress(OSError):
                os.unlink(gone)
        try:
            fresh = open_new(path)
        except OSError:
            return False
        os.close(self._file)
        self._file, self._room = fresh, self._piece_max
        self._tails.append((path, 0))
        return True

    def _drop(self, count: int) -> None:
        self.dropped += count
        self._unsaid += count


def open_new(path: str) -> int:
    """Open a file to append to; a link in its place is refused."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    return os.open(path, flags, 0o600)
