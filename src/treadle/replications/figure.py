"""Bar charts of measured and published values: one for each table that has published values."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from treadle.replications.rows import Row
from treadle.reports.export import make_directory
from treadle.reports.figure_files import add_legend, check_available, file_name, new_picture, save

_BAR = 0.38  # of a row's height
_LOG_FROM = 50.0  # largest over smallest


def draw(sections: Mapping[str, Sequence[Row]], paper: str, directory: Path) -> list[Path]:
    """Write the figures; the paths, in order."""
    check_available()
    make_directory(directory)
    paths: list[Path] = []
    for title, rows in sections.items():
        shown = [row for row in rows if row.published is not None]
        if shown:
            paths += _draw(title, shown, directory, f"{paper}-{file_name(title)}")
    return paths


def _draw(title: str, rows: Sequence[Row], directory: Path, name: str) -> list[Path]:
    picture = new_picture(height=1.4 + 0.42 * len(rows))
    axes = picture.axes[0]
    places = range(len(rows))
    measured = [row.measured for row in rows]
    published = [row.published or 0.0 for row in rows]
    beside = "limit" if all(row.at_least or row.at_most for row in rows) else "published"
    axes.barh([p + _BAR / 2 for p in places], published, _BAR, color="#999999", label=beside)
    axes.barh([p - _BAR / 2 for p in places], measured, _BAR, color="#0072b2", label="measured")
    axes.set_yticks(list(places), [row.what for row in rows])
    axes.invert_yaxis()
    values = [value for value in (*measured, *published) if value > 0]
    if max(values) > _LOG_FROM * min(values):
        axes.set_xscale("log")
    axes.set_title(title, fontsize="medium", loc="left")
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)
    add_legend(picture)
    return save(picture, directory, name)
