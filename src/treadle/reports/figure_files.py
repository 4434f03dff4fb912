"""Write figures as PNG and SVG files with matplotlib.

Each figure has its own Agg canvas; pyplot and its global state are not used.
"""

import re
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from treadle.core.errors import InvalidInputError
from treadle.reports.export import write_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("png", "svg")
_LEGEND_LETTERS = 90
_NAME_MAX = 80  # letters of a file name


def check_available() -> None:
    """Raise if matplotlib is missing, before any work is done."""
    try:
        # Heavy and optional: imported only when figures are drawn.
        import matplotlib  # noqa: PLC0415
        import matplotlib.backends.backend_agg  # noqa: F401, PLC0415
    except ImportError as error:
        raise InvalidInputError(
            "figures need matplotlib; install it with pip install 'treadle[figures]'"
        ) from error


def new_picture(width: float = 7.0, height: float = 4.0) -> "Figure":
    """An empty figure with one pair of axes; sizes are in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    picture = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(picture)
    picture.add_subplot().spines[["top", "right"]].set_visible(False)
    return picture


def add_legend(picture: "Figure") -> None:
    """A legend above the axes, in as many columns as there is room for."""
    handles, names = picture.axes[0].get_legend_handles_labels()
    if not handles:
        return
    # About 90 letters fit side by side at this size; a line sample counts as 7.
    columns = max(1, min(len(names), _LEGEND_LETTERS // (max(map(len, names)) + 7)))
    picture.legend(handles, names, loc="outside upper left", ncols=columns, frameon=False)


def save(
    picture: "Figure", directory: Path, name: str, formats: Sequence[str] = FORMATS
) -> list[Path]:
    """Write it in every format; the same figure gives the same bytes."""
    import matplotlib  # noqa: PLC0415

    paths = []
    # A fixed salt and no date, so that bytes do not differ from day to day.
    with matplotlib.rc_context({"svg.hashsalt": "treadle", "svg.fonttype": "none"}):
        for extension in formats:
            paths.append(directory / f"{name}.{extension}")
            write_bytes(paths[-1], _encoded(picture, extension))
    return paths


def file_name(words: str) -> str:
    """The words as a portable file name."""
    return re.sub(r"[^a-z0-9.]+", "-", words.lower()).strip("-.")[:_NAME_MAX]


def _encoded(picture: "Figure", extension: str) -> bytes:
    metadata = {"Date": None} if extension == "svg" else {"Software": None}
    content = BytesIO()
    picture.savefig(content, format=extension, dpi=160, metadata=metadata)
    return content.getvalue()
