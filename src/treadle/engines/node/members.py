"""The coordinator of an attempt whose members change: real sockets around the membership machine.

A selector loop drives it: the supervisor's, or that of a test. It imports the standard library and
the core, and starts and ends no process itself: `launch` and `dismiss` do.

    members = Members(meeting, launch=..., dismiss=..., report=...)
    members.order(Target(1, (("gpu0",), ("gpu1",))), now)
    loop: poll(members.descriptors(), until members.due) -> members.readable(descriptor, now),
          members.ended(member, now) when its process ends, members.tick(now)

`launch(member, place, descriptor, joins)` starts a process that inherits the descriptor. A process
that is forked and executes no program calls `close()` in itself: the lines of its siblings would
not end with this process otherwise.
"""

import socket
from collections.abc import Callable, Mapping, Sequence

from treadle.core.member_facts import (
    Changed,
    Dismiss,
    Ended,
    Gone,
    Heard,
    Input,
    Launch,
    Limits,
    Lost,
    Output,
    Place,
    Refused,
    Send,
    Stop,
    TakeOver,
    Target,
    Tick,
)
from treadle.core.member_messages import (
    LINE_BYTES_MAX,
    Answer,
    Form,
    Hello,
    Member,
    Order,
    decode,
    encode,
)
from treadle.core.membership import Membership

Fact = Changed | Refused | Lost | Ended
ANY_PYTHON = "python3"  # of a library that does not say which it runs in
LaunchMember = Callable[[Member, Place, int, bool], None]


class Members:
    """The members of one attempt, as processes with a line to each."""

    def __init__(
        self,
        meeting: str,
        *,
        launch: LaunchMember,
        dismiss: Callable[[Member, bool], None],
        report: Callable[[Fact], None],
        meet: Callable[[str], None] = lambda _: None,
        lines: Mapping[Member, socket.socket] = {},
        limits: Limits = Limits(),  # noqa: B008
    ) -> None:
        """meeting: "HOST:PORT/NAME" of a store by which members find each other.

        meet: members are about to do so; serve it with this interpreter, if nothing does.

        dismiss: end a process; at once, if the second argument says so.

        lines: to members that run already.
        """
        self._launch = launch
        self._dismiss = dismiss
        self._report = report
        self._meet = meet
        self._machine = Membership(f"tcp:{meeting}-", limits)
        self._given = dict(lines)
        self._lines: dict[Member, socket.socket] = {}
        self._buffers: dict[Member, bytes] = {}
        self._can: dict[Member, tuple[str, ...]] = {}
        self._python = ""  # in which members run

    # -- for the loop ------------------------------------------------------------------------------

    def descriptors(self) -> dict[int, Member]:
        """What to poll for reading."""
        return {line.fileno(): member for member, line in self._lines.items()}

    @property
    def due(self) -> float | None:
        """The moment of the next `tick`."""
        return self._machine.due

    @property
    def machine(self) -> Membership:
        """To be read: phase, group, members."""
        return self._machine

    @property
    def can(self) -> tuple[str, ...]:
        """What all members of this attempt can change while they train; empty: it is rigid.

        Newcomers have not said it all before they train.
        """
        those = self._machine.group or self._machine.members
        known = [set(self._can.get(member, ())) for member in those]
        return tuple(sorted(set.intersection(*known))) if known else ()

    @property
    def spoken(self) -> bool:
        """Whether any member has said that it uses the library."""
        return bool(self._can)

    def order(self, target: Target, now: float) -> None:
        self._take(target, now)

    def take_over(
        self,
        given: TakeOver,
        lines: Mapping[Member, socket.socket],
        said: Mapping[Member, Sequence[str]],
        now: float,
    ) -> None:
        """Go on with members of a coordinator that is gone. said: of themselves, to that one."""
        self._lines |= lines
        self._buffers |= dict.fromkeys(lines, b"")
        self._take(given, now)
        for member, words in said.items():
            for word in words:
                self._hear(member, word.encode(), now)

    def stop(self, now: float) -> None:
        """All members write a checkpoint and leave together; the grace is the caller's."""
        self._take(Stop(), now)

    def tick(self, now: float) -> None:
        self._take(Tick(), now)

    def ended(self, member: Member, now: float) -> None:
        """The process of a member has ended. What it said before that counts."""
        self.hear_out(member, now)
        self._close(member)
        self._take(Gone(member), now)

    def hear_out(self, member: Member, now: float) -> None:
        """Read what it has said until now."""
        if member in self._lines:
            self._read(member, now)

    def readable(self, descriptor: int, now: float) -> None:
        member = self.descriptors().get(descriptor)
        if member is not None:
            self._read(member, now)

    def close(self) -> None:
        for member in list(self._lines):
            self._close(member)

    # -- inside ------------------------------------------------------------------------------------

    def _take(self, given: Input, now: float) -> None:
        for output in self._machine.step(given, now):
            self._carry_out(output)

    def _carry_out(self, output: Output) -> None:
        match output:
            case Launch(member=member) if member in self._given:
                self._lines[member], self._buffers[member] = self._given.pop(member), b""
            case Launch():
                self._prepare_meeting()
                ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
                ours.setblocking(False)
                self._lines[output.member], self._buffers[output.member] = ours, b""
                with theirs:
                    self._launch(output.member, output.place, theirs.fileno(), output.joins)
            case Dismiss():
                self._dismiss(output.member, output.at_once)
            case Send():
                if isinstance(output.order, Form):
                    self._prepare_meeting()
                self._send(output.member, output.order)
            case _:
                self._report(output)

    def _send(self, member: Member, order: Order) -> None:
        line = self._lines.get(member)
        if line is None:
            return
        data = encode(order)
        try:
            if line.send(data) != len(data):
                self._close(member)
        except OSError:
            # Gone, or it does not read: then it will not arrive either, and the machine's
            # deadlines count for it.
            self._close(member)

    def _read(self, member: Member, now: float) -> None:
        """All that a member said; a line that cannot be read ends the talk, not the process."""
        while (line := self._lines.get(member)) is not None:
            try:
                data = line.recv(LINE_BYTES_MAX)
            except BlockingIOError:
                return None
            except OSError:
                data = b""
            if not data:
                return self._close(member)
            *lines, rest = (self._buffers[member] + data).split(b"\n")
            self._buffers[member] = rest
            if not all(self._hear(member, each, now) for each in lines):
                return self._close(member)
            if len(rest) > LINE_BYTES_MAX:
                return self._close(member)
        return None

    def _hear(self, member: Member, line: bytes, now: float) -> bool:
        """Whether it can be read."""
        try:
            answer = decode(line)
        except ValueError:
            return False
        if isinstance(answer, Hello):
            self._greet(member, answer)
        if isinstance(answer, Answer):
            self._take(Heard(member, answer), now)
        return True

    def _greet(self, member: Member, hello: Hello) -> None:
        first, self._can[member] = not self.spoken, hello.can
        if first:
            self._python = hello.python or ANY_PYTHON
            self._prepare_meeting()

    def _close(self, member: Member) -> None:
        line = self._lines.pop(member, None)
        if line is not None:
            line.close()

    def _prepare_meeting(self) -> None:
        """One alone meets no other."""
        if self.spoken and len(self._machine.members) > 1:
            self._meet(self._python)
