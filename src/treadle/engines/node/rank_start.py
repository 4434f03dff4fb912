"""Starts the ranks of an attempt: from a warm interpreter where there is one, else cold.

Part of the supervisor: it imports the standard library alone.
"""

import os
import socket
from collections.abc import Mapping
from typing import Any

from treadle.engines.node.output_capture import Log, Mask
from treadle.engines.node.ranks import Rank, become_rank
from treadle.engines.node.scope import Scope
from treadle.engines.node.warm_rank import Keeper, Refused, WarmRank, ask_for_rank


class RankStart:
    """Starts ranks by one order."""

    def __init__(self, order: Mapping[str, Any], scope: Scope, warm: socket.socket | None) -> None:
        self._order = order
        self._scope = scope
        self._warm = warm  # the warm interpreter of the job's user
        self.cold = ""  # why it did not fork a rank

    def start(
        self, number: int, extra: Mapping[str, Any], channel: int | None = None
    ) -> tuple[Rank, int]:
        """One rank, and where it says that it begins.

        channel: a descriptor for it, with its line to the supervisor.
        """
        order = self._order
        log = Log(order["folder"], number, order["log_bytes_max"])
        mask = Mask(order["secrets"])
        while True:
            output, its_end = os.pipe2(os.O_CLOEXEC)
            heard, said = os.pipe2(os.O_CLOEXEC)
            os.set_blocking(output, False)
            keeper, pid = None, 0
            if self._warm is None:
                pid = os.fork()
                if pid == 0:
                    become_rank(order, extra, its_end, said, channel)
            else:
                keeper = self._keeper(extra, [its_end, said, *([channel] if channel else [])])
            os.close(its_end)
            os.close(said)
            if keeper is not None:
                return WarmRank(number, keeper, output, log, mask), heard
            if pid:
                return Rank(number, pid, output, log, mask), heard
            # A warm interpreter that answers late still has the other ends: take new pipes.
            os.close(output)
            os.close(heard)

    def _keeper(self, extra: Mapping[str, Any], files: list[int]) -> Keeper | None:
        """Of a rank that the warm interpreter forks; None from the first refusal on."""
        assert self._warm is not None
        try:
            return ask_for_rank(self._warm, self._order, extra, files=files, scope=self._scope)
        except (Refused, OSError) as error:
            self.cold = str(error)
            self._warm.close()
            self._warm = None
            return None
