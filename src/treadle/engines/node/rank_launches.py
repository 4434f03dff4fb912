"""Launches the ranks of an attempt, for its supervisor, and listens until each has begun.

Part of the supervisor: it imports the standard library and the core's protocol alone.
"""

import errno
import os
import select
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from treadle.engines.node import machine_probe
from treadle.engines.node.first_members import FirstMembers, Newcomer
from treadle.engines.node.member_ranks import MemberRanks
from treadle.engines.node.rank_start import RankStart
from treadle.engines.node.ranks import BEGINS, Rank
from treadle.engines.node.team_member import TeamMember

if TYPE_CHECKING:
    from treadle.engines.node.supervisor import Attempt

# As a rank would complain of the machine: whatever killed it, its command did not run.
KILLED_EARLY = f"{errno.EIO} it was killed before it began".encode()
COMPLAINT_BYTES_MAX = 4096
BEGIN_WITHIN_S = 1.0  # for a rank that is being launched while it has to stop


class RankLaunches:
    """Of one attempt."""

    def __init__(self, attempt: "Attempt", warm: socket.socket | None) -> None:
        self._attempt = attempt
        self.starts = RankStart(attempt.order, attempt.scope, warm)

    def all(self, first: FirstMembers | None, members: TeamMember | None) -> bool:
        """Start all ranks; False if one could not be started or all have to stop."""
        if members is not None:
            return self._join(members)
        if first is None:
            return all(self._begin(extra) is not None for extra in self._attempt.order["ranks"])
        return all(
            self._begin_member(each) is not None for each in first.newcomers(time.monotonic())
        )

    def _join(self, members: TeamMember) -> bool:
        """Once the coordinator has answered, start the ranks that begin here."""
        while not members.welcome:
            self._attempt.cause = self._attempt.why_stop()
            if self._attempt.cause:
                return False
            now = time.monotonic()
            members.look(now)
            self._attempt.look_at_descendants(now)
            self._attempt.wait(self._attempt.until_due(now))
        for newcomer in members.newcomers():
            rank = self._begin_member(newcomer)
            if rank is None:
                return False
            members.started(newcomer.member, rank, time.monotonic())
        return True

    def members(
        self,
        first: FirstMembers | None,
        members: MemberRanks | TeamMember,
        coordinates: MemberRanks | TeamMember,
    ) -> None:
        """Start those that are wanted. A newcomer that cannot be started is no failure."""
        if first is not None:
            started = first.meeting.serve(self.starts, coordinates.meets)
            coordinates.meets = ""
            if started is not None:
                self._begun(*started)
        while members.starting:
            newcomer = members.starting.pop(0)
            rank = self._begin_member(newcomer, fails=False)
            members.started(newcomer.member, rank, time.monotonic())

    def _begin_member(self, newcomer: Newcomer, *, fails: bool = True) -> Rank | None:
        try:
            return self._begin(newcomer.extra, newcomer.channel, fails=fails)
        finally:
            os.close(newcomer.channel)

    def _begin(
        self, extra: Mapping[str, Any], channel: int | None = None, *, fails: bool = True
    ) -> Rank | None:
        """Start one more rank; None if it could not be started, or all have to stop.

        fails: the attempt has failed then.
        """
        number = len(self._attempt.ranks)
        if self._attempt.why_stop():
            # Without ranks there is nothing to watch, and it must not pass for a success.
            self._attempt.cause = self._attempt.why_stop()
            return None
        rank, heard = self.starts.start(number, extra, channel)
        self._attempt.ranks.append(rank)
        complaint = self._begun(rank, heard)
        if complaint and fails:
            self._attempt.first = number
            why, _, self._attempt.error = complaint.decode(errors="replace").partition(" ")
            if int(why) in machine_probe.MACHINE_ERRORS:
                self._attempt.cause = "machine-error"
        if complaint is None:
            self._attempt.cause = self._attempt.why_stop()
        return rank if complaint == b"" else None

    def _begun(self, rank: Rank, heard: int) -> bytes | None:
        """Listen to it from now on; what it complains of (`_hear`)."""
        assert rank.output is not None
        self._attempt.poll.register(rank.output, select.POLLIN)
        complaint = self._hear(heard)
        if rank.channel is not None:
            self._attempt.poll.register(rank.channel, select.POLLIN)
        return complaint

    def _hear(self, heard: int) -> bytes | None:
        """Why a rank could not be launched, empty if it was; None if it hangs and has to stop."""
        os.set_blocking(heard, False)
        self._attempt.poll.register(heard, select.POLLIN)
        complaint, give_up_at = b"", None
        try:
            while give_up_at is None or time.monotonic() < give_up_at:
                now = time.monotonic()
                if give_up_at is None and self._attempt.why_stop():
                    give_up_at = now + BEGIN_WITHIN_S
                self._attempt.look_at_descendants(now)
                self._attempt.wait(
                    self._attempt.until_due(now) if give_up_at is None else give_up_at - now
                )
                with suppress(BlockingIOError):
                    piece = os.read(heard, COMPLAINT_BYTES_MAX)
                    if not piece:  # The pipe ends when the program is executed, or the rank dies.
                        return self._complaint(complaint)
                    complaint += piece
            return None
        finally:
            self._attempt.poll.unregister(heard)
            os.close(heard)

    def _complaint(self, said: bytes) -> bytes | None:
        """What a rank said in the end; None if it was killed before it began, to stop it."""
        if said or not self._attempt.why_stop():
            return said.removeprefix(BEGINS) if said else KILLED_EARLY
        return None
