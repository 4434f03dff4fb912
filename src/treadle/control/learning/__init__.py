"""What is learned from jobs that run: profiles by kind, progress, metering."""

from treadle.control.learning import progress_lines
from treadle.control.learning.job_learner import JobLearner
from treadle.control.learning.kept_starts import SETTING as STARTS
from treadle.control.learning.learned_lengths import (
    CLOSE,
    PROFILES_MAX,
    Expectation,
    Profiles,
    Program,
    Question,
)
from treadle.control.learning.load_history import History, Point, so_far_in, unpacked
from treadle.control.learning.outcomes import (
    Attempted,
    learn_plans,
    of_end,
    of_pace,
    of_pause,
    of_sight,
)
from treadle.control.learning.output_tail import output_tail
from treadle.control.learning.progress import ProgressWatch
from treadle.control.learning.sightings import company_of
