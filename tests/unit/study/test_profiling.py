"""What a profile says of sizes and company."""

import pytest

from treadle.study.profiling import WORTH, Measured, good_company, worth_having


def at(*speeds: float | None) -> list[Measured]:
    return [Measured(size=1 << power, steps_per_s=speed) for power, speed in enumerate(speeds)]


def test_sizes_are_worth_having_as_long_as_each_device_adds_half_of_one() -> None:
    assert worth_having(at(10.0, 19.0, 36.0)) == [1, 2, 4]
    assert worth_having(at(10.0, 14.0, 40.0)) == [1]
    assert worth_having(at(10.0, 15.0)) == [1, 2], f"just {WORTH} of a device"
    assert worth_having(at(None, 10.0)) == [2]
    assert worth_having([]) == []


def test_a_job_that_waits_shares_with_all_and_one_that_saturates_with_few() -> None:
    waits, saturates = good_company(0.05), good_company(0.95)
    assert len(waits) > len(saturates)
    assert good_company(None) == []
    for one in [*waits, *saturates]:
        assert one.together >= 1.15
        assert min(one.keeps, one.other_keeps) >= 0.5
    sums = [one.together for one in waits]
    assert sums == sorted(sums, reverse=True)
    assert sums[0] == pytest.approx(2.0, abs=0.1)
