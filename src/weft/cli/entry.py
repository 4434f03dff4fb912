"""The first lines of a `weft` process.

A command makes millions of small values and no cycles worth looking for; looking for them takes
10 ms of the imports alone.
"""

import gc

gc.disable()

from weft.cli.main import main  # noqa: E402

__all__ = ["main"]
