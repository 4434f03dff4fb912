"""A job that ends later on more devices says what it has less of there."""

from treadle.study.what_if_later import NAMED_MAX, later_notes
from treadle.wire.what_if import WhatIfSpell


def held(job: str, devices: int, from_s: float, to_s: float, first: int = 0) -> WhatIfSpell:
    names = tuple(f"n:{number}" for number in range(first, first + devices))
    return WhatIfSpell(job=job, devices=names, from_s=from_s, to_s=to_s)


def test_fewer_devices_a_later_start_company_and_changes_are_reasons() -> None:
    now = [held("a", 4, 0, 10), held("b", 1, 0, 10), held("c", 1, 0, 10, 7)]
    then = [
        *(held("a", 2, 0, 20), held("b", 1, 20, 30)),
        *(held("c", 1, 0, 9, 6), held("c", 1, 9, 20, 6), held("d", 1, 0, 20, 6)),
    ]
    ends = {"a": 20.0, "b": 30.0, "c": 20.0}
    a, b, c = sorted(
        later_notes(dict.fromkeys("abc", 10.0), ends, now, then), key=lambda note: note[4]
    )
    assert "2 devices instead of 4" in a
    assert "job a" in b
    assert "20 s later" in b
    assert "job d" in c
    assert "1 more time" in c


def test_what_ends_as_soon_is_not_said_and_few_are_named() -> None:
    spells = [held("a", 1, 0, 10)]
    assert later_notes({"a": 10.0}, {"a": 10.9}, spells, spells) == []
    names = [str(number) for number in range(NAMED_MAX + 3)]
    found = later_notes(dict.fromkeys(names, 1.0), dict.fromkeys(names, 9.0), [], [])
    assert len(found) == NAMED_MAX + 1
