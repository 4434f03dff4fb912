"""The store of jobs on several nodes, held to torch's own: the same calls, the same answers."""

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.engines.node import rendezvous_store
from treadle.engines.node.environment import free_port
from treadle.engines.node.rendezvous_store import MAGIC, Client, Store
from treadle.engines.node.scope import RecordedScope

torch_distributed = pytest.importorskip("torch.distributed")
SOON = timedelta(seconds=20)


@contextmanager
def ours(tmp_path: Path) -> Iterator[int]:
    """The port of a server as a supervisor starts it."""
    port = free_port()
    order = {
        "store": ("127.0.0.1", port),
        "scope": RecordedScope(f"{tmp_path}/record").document(),
        "supervisor": os.getpid(),
        "uid": os.geteuid(),
    }
    pid = rendezvous_store.start(order)
    try:
        yield port
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def client(port: int) -> Any:
    return torch_distributed.TCPStore("127.0.0.1", port, is_master=False, timeout=SOON)


def all_calls(store: Any) -> list[object]:
    """What a client is answered, call by call."""
    found: list[object] = []
    store.set("a", "1")
    found += [store.get("a"), store.add("count", 3), store.add("count", -1), store.get("count")]
    found += [store.compare_set("a", "1", "2"), store.compare_set("a", "1", "3")]
    found += [store.compare_set("new", "", "x"), store.compare_set("gone", "y", "z")]
    store.append("a", "more")
    found += [store.get("a"), store.check(["a", "new"]), store.check(["a", "no"])]
    store.multi_set(["m", "n"], ["1" * 5000, ""])
    found += [store.multi_get(["m", "n"]), store.num_keys(), store.delete_key("m")]
    found += [store.delete_key("m"), store.num_keys()]
    store.queue_push("q", "first")
    store.queue_push("q", "second")
    found += [store.queue_len("q"), store.queue_pop("q"), store.queue_pop("q")]
    found += [store.queue_len("q")]
    with pytest.raises(torch_distributed.DistStoreError):
        store.wait(["never"], timedelta(milliseconds=50))
    store.wait(["a", "new"], timedelta(seconds=5))
    if hasattr(store, "list_keys"):  # of newer versions of torch
        found.append(sorted(store.list_keys()))
    if hasattr(store, "barrier"):
        found.append(store.barrier("all", 1, timedelta(seconds=5)))
    return [*found, store.get("a")]


def test_it_answers_torch_as_torch_does(tmp_path: Path) -> None:
    theirs = torch_distributed.TCPStore(
        "127.0.0.1", 0, is_master=True, timeout=SOON, wait_for_workers=False
    )
    expected = all_calls(theirs)
    with ours(tmp_path) as port:
        assert all_calls(client(port)) == expected


def test_one_waits_for_what_another_sets(tmp_path: Path) -> None:
    with ours(tmp_path) as port:
        first, second = client(port), client(port)
        found: list[bytes] = []
        waiter = threading.Thread(target=lambda: found.append(first.get("key")))
        waiter.start()
        second.add("other", 1)
        second.set("key", "value")
        waiter.join(20)
        assert found == [b"value"]


def test_what_is_no_client_of_torch_is_let_go_and_the_others_go_on(tmp_path: Path) -> None:
    with ours(tmp_path) as port:
        good = client(port)
        for words in (b"GET / HTTP/1.1\r\n\r\n", b"\0\1\2\3\4", b"\5", b"\xff" * 100):
            with closing(socket.create_connection(("127.0.0.1", port), 20)) as stranger:
                stranger.sendall(words)
                assert stranger.recv(1) == b""
        good.set("a", "1")
        assert good.get("a") == b"1"


def test_a_port_that_is_taken_is_an_error_at_once(tmp_path: Path) -> None:
    with ours(tmp_path) as port, pytest.raises(OSError, match="in use"):
        rendezvous_store.listening("127.0.0.1", port)


def _string(value: bytes) -> bytes:
    return len(value).to_bytes(8, "little") + value


@given(st.lists(st.integers(1, 40), max_size=8))
def test_it_does_not_matter_in_which_pieces_commands_come(cuts: list[int]) -> None:
    words = b"\0" + MAGIC.to_bytes(4, "little")
    words += b"\1" + _string(b"key") + _string(b"value")
    words += b"\4" + _string(b"n") + (5).to_bytes(8, "little")
    words += b"\3" + _string(b"key")
    store, one = Store(), Client()
    for cut in cuts:
        store.hear(one, words[:cut])
        words = words[cut:]
    store.hear(one, words)
    assert bytes(one.owed) == (5).to_bytes(8, "little") + _string(b"value")
    assert store.values == {b"key": b"value", b"n": b"5"}
