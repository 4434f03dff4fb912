"""What a user may set of weave and of weave-l, checked."""

from math import inf
from typing import NamedTuple

from treadle.core.errors import InvalidInputError
from treadle.policies.base.companions import GROUP_MAX


class Levers(NamedTuple):
    """What may be decided, and how much is asked of a change."""

    power: float  # the elasticity of work to devices; inf: measured
    group: int  # most jobs on the same devices
    least: float  # what company must get done, where one job alone gets 1 done
    sizes: bool  # jobs may have other sizes than they ask for
    restart_s: float  # what a restart takes, where it was not measured
    deadline: float  # what a job gains in worth that has no time to lose

    def checked(self, policy: str) -> "Levers":
        """The same, if each means something."""
        wanted = (
            ("power", "from 0 to 1, or inf: measured", 0 <= self.power <= 1 or self.power == inf),
            ("group", "1 to 4 jobs", 1 <= self.group <= GROUP_MAX),
            ("least", "1 or more", self.least >= 1),
            ("restart_s", "0 or more", self.restart_s >= 0),
            ("deadline", "0 (off) or more", self.deadline >= 0),
        )
        for name, expected, is_right in wanted:
            if not is_right:
                found = getattr(self, name)
                raise InvalidInputError(f"{policy} {name} must be {expected}, not {found:g}")
        return self
