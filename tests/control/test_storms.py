"""A machine that runs out of something for a while costs no job anything.

The storms of a minute are `python -m tests.control.storms all 60`.
"""

import pytest

from tests.control.storms import KINDS, NotHereError, passed, storm
from tests.shared import THOROUGH

SECONDS = 8.0 if THOROUGH else 3.0
# Lines of the journal: the devices close once, and the jobs that were caught wait. One for each job
# that waits would be more.
JOBS, LINES_MAX = (200, 100) if THOROUGH else (80, 60)


@pytest.mark.parametrize("kind", KINDS)
def test_a5_after_a_storm_every_job_has_run_once_and_the_cause_was_named(kind: str) -> None:
    try:
        seen = storm(kind, SECONDS, jobs=JOBS)
    except NotHereError as error:
        pytest.skip(str(error))
    assert passed(seen, JOBS), seen
    assert seen.events < LINES_MAX, seen
