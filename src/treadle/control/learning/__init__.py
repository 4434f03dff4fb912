"""What is learned from jobs that run: profiles by kind, progress, metering."""

from treadle.control.learning.learner import Learner
from treadle.control.learning.profiles import PROFILES_MAX, Expectation, Profiles, keys_of
from treadle.control.learning.progress import ProgressWatch

__all__ = ["PROFILES_MAX", "Expectation", "Learner", "Profiles", "ProgressWatch", "keys_of"]
