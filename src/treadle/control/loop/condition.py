"""What keeps the controller from working as it should, and who waits for it."""

from dataclasses import dataclass, field

from treadle.control.loop.orders_first import OrdersUnderWay


@dataclass(slots=True)
class Condition:
    """Set by the part that notices it; shown to people."""

    draining: bool = False  # it is about to leave and starts nothing
    store_error: str = ""  # why the store cannot be written now
    store_silent: str = ""  # that the store does not answer reads now
    orders: OrdersUnderWay = field(default_factory=OrdersUnderWay)
