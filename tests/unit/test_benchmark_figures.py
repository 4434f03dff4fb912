"""Tables of README and docs: each has a place and a measurement, and a stale figure is found."""

from pathlib import Path

import pytest
from benchmarks import figures
from benchmarks.figures import Figure, Table, blocks, off, unmatched, written
from benchmarks.growth import exponent

TABLE = [["what", "CPU s", "MB", "mean s"], ["a / b", "1.00 / 2.00", "100", "1,000"]]
PAGE = "# A page\n\n<!-- figures: mine -->\nold\n<!-- /figures -->\n\nmore\n"
WHERE = "Measured at a commit."


def test_every_table_has_a_place_and_every_place_a_table() -> None:
    assert not list(unmatched())


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(figures, "ROOT", tmp_path)
    monkeypatch.setattr(figures, "_calibration_s", lambda: 0.5)
    (tmp_path / "page.md").write_text(written(PAGE, "mine", TABLE, WHERE))
    return "page.md"


def _off(page: str, fresh: Table, calibration_s: float = 0.5) -> int:
    figure = Figure(page, lambda: fresh, within=0.02)
    return len(list(off(figure, blocks(page)["mine"], fresh, calibration_s)))


def test_a_table_that_is_written_is_read_back(page: str) -> None:
    (block,) = blocks(page).values()
    assert block.table == TABLE
    assert block.calibration_s == 0.5
    assert not _off(page, TABLE)


@pytest.mark.parametrize(
    ("column", "near", "far"),
    [(1, "1.40 / 2.10", "1.00 / 3.20"), (2, "80", "70"), (3, "1,015", "1,030"), (0, "a / b", "c")],
)
def test_a_figure_is_off_if_it_differs_by_more_than_its_tolerance(
    page: str, column: int, near: str, far: str
) -> None:
    for text, expected in ((near, 0), (far, 1)):
        row = [*TABLE[1][:column], text, *TABLE[1][column + 1 :]]
        assert _off(page, [TABLE[0], row]) == expected


def test_times_are_compared_after_the_calibration_of_both_machines(page: str) -> None:
    slow = [TABLE[0], ["a / b", "3.00 / 6.00", "100", "1,000"]]
    assert _off(page, slow) == 1
    assert not _off(page, slow, calibration_s=1.5)


def test_a_row_more_or_less_is_off(page: str) -> None:
    assert _off(page, [*TABLE, ["c", "1", "1", "1"]])
    assert _off(page, TABLE[:1])


def test_the_exponent_is_the_slope_of_the_logarithms() -> None:
    squares = {size: 3.0 * size**2 for size in (10, 100, 1000)}
    assert exponent(squares, 0.05) == pytest.approx(2)
    assert exponent({10: 1.0, 100: 10.0}, 0.05) is None
    assert exponent(squares, 1e4) is None, "the small ones say nothing"
