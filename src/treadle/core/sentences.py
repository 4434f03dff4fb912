"""What a reason says to people, in one sentence."""

from treadle.core.reasons import Reason


def sentence(reason: Reason, unit: str = "device") -> str:  # noqa: ARG001
    """The answer in one clause. unit: what a device is called, such as GPU or slot."""
    return reason.code


def details(reason: Reason, unit: str = "device") -> tuple[tuple[str, str], ...]:  # noqa: ARG001
    """What supports it: a label and one fact each."""
    return ()
