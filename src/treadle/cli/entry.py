"""The first lines of a `treadle` process.

A command makes millions of small values and no cycles worth looking for; looking for them takes
10 ms of the imports alone.
"""

import gc

gc.disable()

from treadle.cli.main import main  # noqa: E402

__all__ = ["main"]
