"""The server's limits and its clock, in one value."""

from dataclasses import dataclass, field

from treadle.control.loop import MonotonicClock
from treadle.core.ports import Clock
from treadle.server.limits import TCP_LIMITS, UNIX_LIMITS, DoorLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Limits on requests; the defaults are far above what the command line needs."""

    hosts: tuple[str, ...] = ()  # what `Host` may say over TCP, as it is written there
    group: int | None = None  # the Unix socket is only for its members
    unix: DoorLimits = UNIX_LIMITS
    tcp: DoorLimits = TCP_LIMITS
    stranger_s_max: float = 5.0  # silence of a connection that has not shown who it is
    body_bytes_max: int = 2 * 2**20  # a submission brings the differences to a commit with it
    body_s_max: float = 30.0  # a request must have arrived in full by then
    requests_per_s: float = 300.0  # of one user, in the long run
    requests_burst: int = 3000
    wrong_tokens_per_s: float = 1.0  # from one address; more are refused without a look
    wrong_tokens_burst: int = 20
    streams_max: int = 256
    streams_per_user_max: int = 64
    keep_alive_s: float = 15.0  # between comments on a silent stream
    send_s_max: float = 60.0  # a reader that takes nothing for so long is dropped
    clock: Clock = field(default_factory=MonotonicClock)
