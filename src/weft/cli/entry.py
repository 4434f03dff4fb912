"""The first lines of a `weft` process.

A command makes millions of small values and no cycles worth looking for; looking, from the first
import on, would take a twentieth of a run.
"""

import gc

gc.disable()

from weft.cli.main import main  # noqa: E402

__all__ = ["main"]
