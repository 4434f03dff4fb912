"""What may go wrong between a controller and the agent of a node."""

from treadle.core.errors import EngineError


class PassingError(EngineError):
    """It is worth to ask again."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retryable=True)


class LinkLostError(PassingError):
    """No answer came: the agent may have done what it was asked, or not."""


class ClusterAwayError(LinkLostError):
    """The cluster itself cannot be asked, which says nothing about the agent."""


class StaleEpochError(EngineError):
    """A node has taken orders of a later controller."""

    def __init__(self, message: str, epoch: int = 0) -> None:
        """epoch: of that one."""
        super().__init__(message, retryable=False)
        self.epoch = epoch


class LostPlaceError(PassingError):
    """The agent knows nothing of this session: the controller must take charge anew."""


class UnconfirmedError(PassingError):
    """The grant of the node has run out, and the cluster does not confirm it: in words why."""
