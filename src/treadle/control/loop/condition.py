"""What keeps the controller from working as it should."""

from dataclasses import dataclass


@dataclass(slots=True)
class Condition:
    """Set by the part that notices it; shown to people."""

    draining: bool = False  # it is about to leave and starts nothing
    store_error: str = ""  # why the store cannot be written now
    store_silent: str = ""  # that the store does not answer reads now
