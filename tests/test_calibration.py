"""Ranges that were printed for the jobs of a recorded hour hold as often as they promise."""

from benchmarks.real_use.replay import said

from treadle.models.lengths.distribution import WIDE


def test_ranges_printed_at_submission_hold_in_a_recorded_hour() -> None:
    rows = said()
    known = [row for row in rows if row.estimate.known]
    assert len(known) > 0.8 * len(rows) > 100
    assert 0.75 <= sum(row.held for row in known) / len(known) <= 0.9
    assert max(row.ratio for row in known) <= 1.05 * WIDE
