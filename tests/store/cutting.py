"""A wire between a client and a server that can be cut at the worst moment: around a COMMIT."""

import socket
from contextlib import suppress
from threading import Lock, Thread

COMMIT = b"COMMIT"


class CuttingWire:
    """Listens on loopback and passes everything on, until it is asked to stop.

    cut: "" passes everything, "before" cuts a connection when it sends a COMMIT that never
    arrives, "after" when the server has answered it, "zombie" as "before", but the server does not
    learn that its client is gone. Each cut is made once. While `dead`, new connections are closed
    at once.
    """

    def __init__(self, port: int) -> None:
        self._server_port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.cut = ""
        self.dead_after_cut = False
        self.dead = False
        self._swallowed: socket.socket | None = None  # the server whose next answer is lost
        self._lock = Lock()
        self._open: list[socket.socket] = []
        self._threads = [Thread(target=self._accept)]
        self._threads[0].start()

    def close(self) -> None:
        # A thread that waits in accept is woken by a shutdown and by nothing else.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            self.dead = True
            for end in self._open:
                _cut(end)
        for thread in self._threads:
            thread.join()
        for end in self._open:
            end.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                with self._lock:
                    if self.dead:
                        client.close()
                        continue
                    server = socket.create_connection(("127.0.0.1", self._server_port))
                    self._open += [client, server]
                    for thread in (
                        Thread(target=self._forth, args=(client, server)),
                        Thread(target=self._back, args=(server, client)),
                    ):
                        self._threads.append(thread)
                        thread.start()

    def _forth(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(65536):
                if self.cut and COMMIT in data:
                    when, self.cut = self.cut, ""
                    self.dead = self.dead_after_cut
                    if when == "zombie":
                        _cut(client)
                        return
                    if when == "before":
                        break
                    self._swallowed = server
                server.sendall(data)
        if self._swallowed is not server:
            _cut(client)
            _cut(server)

    def _back(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(65536):
                if self._swallowed is server:
                    break
                client.sendall(data)
        _cut(client)
        _cut(server)


def _cut(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
