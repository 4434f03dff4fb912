"""Write figures as SVG files with matplotlib.

Each figure has its own Agg canvas; pyplot and its global state are not used. Matplotlib is imported
when a figure is drawn, so that it does not count in what a benchmark measures.
"""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LEGEND_LETTERS = 90


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


def save(picture: "Figure", path: Path) -> None:
    """The same figure gives the same bytes."""
    import matplotlib  # noqa: PLC0415

    # A fixed salt and no date, so that bytes do not differ from day to day.
    with matplotlib.rc_context({"svg.hashsalt": "treadle", "svg.fonttype": "none"}):
        picture.savefig(path, format="svg", metadata={"Date": None})
