"""Starts the ranks of an attempt: from a warm interpreter where there is one, else cold.

Part of the supervisor: it imports the standard library alone.
"""

import os
import socket
from collections.abc import Mapping, Sequence
from typing import Any

from treadle.engines.node.output_capture import Log, Mask
from treadle.engines.node.ranks import Rank, become_rank
from treadle.engines.node.scope import Scope
from treadle.engines.node.warm_rank import Refused, WarmRank, ask_for_rank


class RankStart:
    """Starts ranks by one order."""

    def __init__(self, order: Mapping[str, Any], scope: Scope, warm: socket.socket | None) -> None:
        self._order = order
        self._scope = scope
        self._warm = warm  # the warm interpreter of the job's user
        self.cold = ""  # why it did not fork a rank

    def start(
        self,
        number: int,
        extra: Mapping[str, Any],
        channel: int | None = None,
        *,
        name: str = "",
        command: Sequence[str] | None = None,
    ) -> tuple[Rank, int]:
        """One process of the job's user, and where it says that it begins.

        channel: a descriptor for it. name, command: of one that is no rank.
        """
        order = self._order if command is None else {**self._order, "command": [*command]}
        log = Log(order["folder"], name or f"rank-{number}", order["log_bytes_max"])
        mask = Mask(order["secrets"])
        warm = self._warm
        while True:
            output, its_end = os.pipe2(os.O_CLOEXEC)
            heard, said = os.pipe2(os.O_CLOEXEC)
            os.set_blocking(output, False)
            keeper, pid = None, 0
            if warm is None:
                pid = os.fork()
                if pid == 0:
                    become_rank(order, extra, its_end, said, channel)
            else:
                files = [its_end, said, *([channel] if channel else [])]
                try:
                    keeper = ask_for_rank(warm, order, extra, files=files, scope=self._scope)
                except (Refused, OSError) as error:
                    warm = None
                    if command is None:
                        self._be_cold(str(error))
            os.close(its_end)
            os.close(said)
            if keeper is not None:
                return WarmRank(number, keeper, output, log, mask), heard
            if pid:
                return Rank(number, pid, output, log, mask), heard
            # A warm interpreter that answers late still has the other ends: take new pipes.
            os.close(output)
            os.close(heard)

    def _be_cold(self, why: str) -> None:
        """From the first refusal of a rank on."""
        assert self._warm is not None
        self.cold = why
        self._warm.close()
        self._warm = None
