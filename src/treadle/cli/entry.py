"""The entry point of the `treadle` process, which turns the garbage collector off first.

A command makes millions of small values and no cycles worth collecting; during the imports alone
the collector takes 10 ms.
"""

import gc

gc.disable()

from treadle.cli.main import main  # noqa: E402

__all__ = ["main"]
