"""The live loop: gather facts, decide, commit, carry out."""

from treadle.control.loop.clock import MonotonicClock, Stamp, date_text, wall, worked_for
from treadle.control.loop.commit import Commit, Committed, Published, Rider
from treadle.control.loop.condition import Condition, check_store, on_disk
from treadle.control.loop.controller import Controller
from treadle.control.loop.engine_link import EngineLink
from treadle.control.loop.inbox import Inbox
from treadle.control.loop.live_policy import (
    LiveBelief,
    PolicyInCharge,
    Resting,
    belief_on,
    following_nodes,
)
from treadle.control.loop.off_loop import DaemonThreads, StoreReads
