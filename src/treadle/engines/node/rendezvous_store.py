"""The store by which the ranks of a job on several nodes find each other: torch's TCPStore, served.

The supervisor of the first node binds the port and forks this server, as the job's user, so that
it is there before the first rank and none of them has to live for it. Ranks are told that it runs
already (TORCHELASTIC_USE_AGENT_STORE) and all of them are clients.

What crosses is the binary protocol of torch's own server (2.1 and newer): a byte for the command,
then numbers in the machine's order, and strings with their length before them. It was written
from the protocol, and a test holds it to torch's client. A command that is not known ends the
connection, as torch's server does.

Part of the supervisor: it imports the standard library alone.
"""

import os
import selectors
import signal
import socket
import struct
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NoReturn

from treadle.engines.node.ranks import PR_SET_PDEATHSIG, become_user, prctl
from treadle.engines.node.scope import scope_of

MAGIC = 0x3C85F7CE
KEY_BYTES_MAX, VALUE_BYTES_MAX, KEYS_MAX = 8 << 10, 8 << 20, 128 << 10
READ_BYTES = 1 << 16
BACKLOG = 4096
READY, NOT_READY = b"\0", b"\1"
STOP_WAITING, CANCELLED = b"\0", b"\1"


class ShortError(Exception):
    """The rest of the command has not come yet."""


class Reader:
    """A command as far as it has come."""

    def __init__(self, data: bytearray) -> None:
        self._data = data
        self.at = 0

    def number(self, form: str) -> int:
        """struct's letter for the kind of number."""
        (found,) = struct.unpack(f"={form}", self._bytes(struct.calcsize(f"={form}")))
        return int(found)

    def key(self) -> bytes:
        return self._sized(KEY_BYTES_MAX)

    def value(self) -> bytes:
        return self._sized(VALUE_BYTES_MAX)

    def all_keys(self) -> list[bytes]:
        return [self.key() for _ in range(self.count())]

    def count(self) -> int:
        count = self.number("Q")
        if count > KEYS_MAX:
            raise ValueError(f"{count} keys at once")
        return count

    def _sized(self, most: int) -> bytes:
        size = self.number("Q")
        if size > most:
            raise ValueError(f"a string of {size} bytes")
        return self._bytes(size)

    def _bytes(self, count: int) -> bytes:
        if len(self._data) < self.at + count:
            raise ShortError
        found = bytes(self._data[self.at : self.at + count])
        self.at += count
        return found


class Client:
    """One connection."""

    def __init__(self) -> None:
        self.heard = bytearray()
        self.owed = bytearray()  # answers that were not sent yet
        self.valid = False  # it has said the magic number
        self.missing: set[bytes] = set()  # keys that it waits for


class Store:
    """Keys, values and who waits for them; no I/O."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}
        self._queues: dict[bytes, deque[bytes]] = {}
        self._waiting: dict[Client, None] = {}  # in the order in which they began
        self._barriers: dict[bytes, dict[Client, None]] = {}  # who has come to them
        self.owing: set[Client] = set()  # clients with an answer to be sent
        self._commands: tuple[Callable[[Client, Reader], bytes], ...] = (
            *(self._validate, self._set, self._compare_set, self._get, self._add, self._check),
            *(self._wait, self._count, self._delete, self._append, self._get_all, self._set_all),
            *(self._cancel, self._ping, self._push, self._pop, self._length),
            *(self._list, self._barrier),
        )

    def hear(self, client: Client, data: bytes) -> None:
        """Carry out what has come; answers are owed. Raises ValueError for what makes no sense."""
        client.heard += data
        while client.heard:
            reader = Reader(client.heard)
            try:
                command = reader.number("B")
                if command >= len(self._commands) or (command > 0) != client.valid:
                    raise ValueError(f"command {command}")
                self._owe(client, self._commands[command](client, reader))
            except ShortError:
                return
            del client.heard[: reader.at]

    def forget(self, client: Client) -> None:
        self._wait_no_more(client)
        self.owing.discard(client)

    # -- commands, in the order of their numbers: all is read before anything is done ------------

    def _validate(self, client: Client, reader: Reader) -> bytes:
        if reader.number("I") != MAGIC:
            raise ValueError("another protocol")
        client.valid = True
        return b""

    def _set(self, _: Client, reader: Reader) -> bytes:
        key, value = reader.key(), reader.value()
        self._put(key, value)
        return b""

    def _compare_set(self, _: Client, reader: Reader) -> bytes:
        key, expected, wanted = reader.key(), reader.value(), reader.value()
        if key not in self.values and expected:
            return _sized(expected)
        if self.values.get(key, b"") == expected:
            self._put(key, wanted)
        return _sized(self.values[key])

    def _get(self, _: Client, reader: Reader) -> bytes:
        return _sized(self.values.get(reader.key(), b""))

    def _add(self, _: Client, reader: Reader) -> bytes:
        key, more = reader.key(), reader.number("q")
        total = int(self.values.get(key, b"0")) + more
        self._put(key, b"%d" % total)
        return struct.pack("=q", total)

    def _check(self, _: Client, reader: Reader) -> bytes:
        return READY if all(map(self._is_there, reader.all_keys())) else NOT_READY

    def _wait(self, client: Client, reader: Reader) -> bytes:
        client.missing = {key for key in reader.all_keys() if not self._is_there(key)}
        if not client.missing:
            return STOP_WAITING
        self._waiting[client] = None
        return b""

    def _count(self, _: Client, __: Reader) -> bytes:
        return struct.pack("=q", len(self.values))

    def _delete(self, _: Client, reader: Reader) -> bytes:
        return struct.pack("=q", self.values.pop(reader.key(), None) is not None)

    def _append(self, _: Client, reader: Reader) -> bytes:
        key, value = reader.key(), reader.value()
        self._put(key, self.values.get(key, b"") + value)
        return b""

    def _get_all(self, _: Client, reader: Reader) -> bytes:
        return b"".join(_sized(self.values.get(key, b"")) for key in reader.all_keys())

    def _set_all(self, _: Client, reader: Reader) -> bytes:
        for key, value in [(reader.key(), reader.value()) for _ in range(reader.count())]:
            self._put(key, value)
        return b""

    def _cancel(self, client: Client, _: Reader) -> bytes:
        self._wait_no_more(client)
        return CANCELLED

    def _ping(self, _: Client, reader: Reader) -> bytes:
        return struct.pack("=I", reader.number("I"))

    def _push(self, _: Client, reader: Reader) -> bytes:
        key, value = reader.key(), reader.value()
        self._queues.setdefault(key, deque()).append(value)
        self._wake(key, most=1)
        return b""

    def _pop(self, _: Client, reader: Reader) -> bytes:
        queue = self._queues.get(reader.key(), deque())
        length = struct.pack("=q", len(queue))
        return length + _sized(queue.popleft()) if queue else length

    def _length(self, _: Client, reader: Reader) -> bytes:
        return struct.pack("=q", len(self._queues.get(reader.key(), ())))

    def _list(self, _: Client, __: Reader) -> bytes:
        return struct.pack("=Q", len(self.values)) + b"".join(map(_sized, self.values))

    def _barrier(self, client: Client, reader: Reader) -> bytes:
        key, size = reader.key(), reader.number("Q")
        there = self._barriers.setdefault(key, {})
        there[client] = None
        if len(there) < size:
            return b""
        for each in self._barriers.pop(key):
            self._owe(each, STOP_WAITING)
        return b""

    # -- leaves ----------------------------------------------------------------------------------

    def _is_there(self, key: bytes) -> bool:
        return key in self.values or bool(self._queues.get(key))

    def _put(self, key: bytes, value: bytes) -> None:
        self.values[key] = value
        self._wake(key, most=len(self._waiting))

    def _wake(self, key: bytes, most: int) -> None:
        """Answer those who wait for nothing else; at most so many."""
        waiters = [client for client in self._waiting if key in client.missing]
        for client in waiters[:most]:
            client.missing.discard(key)
            if not client.missing:
                del self._waiting[client]
                self._owe(client, STOP_WAITING)

    def _wait_no_more(self, client: Client) -> None:
        self._waiting.pop(client, None)
        for there in self._barriers.values():
            there.pop(client, None)

    def _owe(self, client: Client, answer: bytes) -> None:
        client.owed += answer
        if client.owed:
            self.owing.add(client)


def _sized(value: bytes) -> bytes:
    return struct.pack("=Q", len(value)) + value


# -- the server -----------------------------------------------------------------------------------


def listening(address: str, port: int) -> socket.socket:
    """The port of this node, held from now on. Raises OSError if another has it."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((address, port))
        found.listen(BACKLOG)
    except OSError:
        found.close()
        raise
    return found


class Server:
    """Serves one store until its process is killed."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._store = Store()
        self._clients: dict[socket.socket, Client] = {}
        self._sockets: dict[Client, socket.socket] = {}
        self._selector = selectors.DefaultSelector()
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ)

    def run(self) -> NoReturn:
        while True:
            for key, _ in self._selector.select():
                found = key.fileobj
                assert isinstance(found, socket.socket)
                if found is self._listener:
                    self._accept()
                elif found in self._clients:
                    self._read(found)
            self._answer_all()

    def _accept(self) -> None:
        with suppress(OSError):
            found, _ = self._listener.accept()
            found.setblocking(False)
            with suppress(OSError):
                found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            client = self._clients[found] = Client()
            self._sockets[client] = found
            self._selector.register(found, selectors.EVENT_READ)

    def _read(self, found: socket.socket) -> None:
        client = self._clients[found]
        try:
            data = found.recv(READ_BYTES)
            if data:
                self._store.hear(client, data)
                return
        except BlockingIOError:
            return
        except (OSError, ValueError):
            pass
        self._drop(found)

    def _answer_all(self) -> None:
        """Send what is owed; a client that does not read is asked again when it can be written."""
        for client in list(self._store.owing):
            found = self._sockets[client]
            try:
                del client.owed[: found.send(client.owed)]
            except BlockingIOError:
                pass
            except OSError:
                self._drop(found)
                continue
            if not client.owed:
                self._store.owing.discard(client)
            more = selectors.EVENT_WRITE if client.owed else 0
            if self._selector.get_key(found).events != selectors.EVENT_READ | more:
                self._selector.modify(found, selectors.EVENT_READ | more)

    def _drop(self, found: socket.socket) -> None:
        client = self._clients.pop(found)
        del self._sockets[client]
        self._store.forget(client)
        self._selector.unregister(found)
        found.close()


def start(order: Mapping[str, Any]) -> int:
    """Begin to serve at the order's address, in a process of the job's user; its pid.

    Raises OSError if the port is taken.
    """
    with listening(*order["store"]) as listener:
        pid = os.fork()
        if pid == 0:
            _become_store(order, listener.fileno())
        return pid


def _become_store(order: Mapping[str, Any], listener: int) -> NoReturn:
    """In the new process: as a rank begins (ranks.py), but no program is executed."""
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGUSR1):
            signal.signal(number, signal.SIG_DFL)
        os.setpgid(0, 0)
        nothing = os.open("/dev/null", os.O_RDWR)
        for standard in range(3):
            os.dup2(nothing, standard)
        scope_of(order["scope"]).take()
        become_user(order)
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() == order["supervisor"]:
            # The lock and the pipe of the supervisor are nothing to keep open.
            os.closerange(3, listener)
            os.closerange(listener + 1, os.sysconf("SC_OPEN_MAX"))
            Server(socket.socket(fileno=listener)).run()
    finally:
        os._exit(1)
