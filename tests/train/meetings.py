"""A store by which ranks of a test meet."""

from torch._C._distributed_c10d import TCPStore


class Meeting:
    """Served by the test's own process, as long as this is kept."""

    def __init__(self) -> None:
        self._store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        self.where = f"127.0.0.1:{self._store.port}"
