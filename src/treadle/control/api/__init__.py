"""What the API answers and does: commands, queries, reasons, history, accounts, metrics."""

from treadle.control.api.assembly import LiveSettings, Wanted
from treadle.control.api.service import LiveService
