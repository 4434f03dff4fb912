"""Mean completion time over a varied number: one line for each combination of other options."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from treadle.reports.comparison import colour
from treadle.reports.export import make_directory
from treadle.reports.figure_files import add_legend, check_available, new_picture, save

_HOUR_S = 3600.0


class Line(NamedTuple):
    """One line: the mean completion times found at each value, one for every seed."""

    name: str
    seconds: Mapping[float, Sequence[float]]


def sweep_figure(lines: Sequence[Line], varied: str, directory: Path) -> list[Path]:
    """Draw means as lines, with a band from minimum to maximum over the seeds; PNG and SVG."""
    check_available()
    make_directory(directory)
    picture = new_picture()
    axes = picture.axes[0]
    for index, line in enumerate(lines):
        values = sorted(line.seconds)
        found = [[s / _HOUR_S for s in line.seconds[value]] for value in values]
        means = [sum(some) / len(some) for some in found]
        shade = colour(index)
        axes.plot(values, means, "o-", color=shade, label=line.name.replace("$", r"\$"))
        axes.fill_between(values, [*map(min, found)], [*map(max, found)], color=shade, alpha=0.2)
    axes.set(xlabel=varied.replace("-", " "), ylabel="mean completion time (h)")
    axes.set_ylim(bottom=0)
    axes.grid(color="#eceff3")
    axes.set_axisbelow(True)
    add_legend(picture)
    return save(picture, directory, varied)
