"""A machine that runs out of something for a while costs no job anything.

The storms of a minute are `python -m tests.control.storms all 60`.
"""

import pytest

from tests.control.storms import JOBS, KINDS, NotHereError, passed, storm

SECONDS = 8.0
LINES_MAX = 100  # of the journal: the devices close once, and the jobs that were caught wait


@pytest.mark.parametrize("kind", KINDS)
def test_a5_after_a_storm_every_job_has_run_once_and_the_cause_was_named(kind: str) -> None:
    try:
        seen = storm(kind, SECONDS)
    except NotHereError as error:
        pytest.skip(str(error))
    assert passed(seen, JOBS), seen
    assert seen.events < LINES_MAX, seen
