"""Jobs that share devices: what to expect of a group, and what became of it."""

from treadle.models.company.predictor import MPS, TIME_SLICED, Sharing, doubt, predict

__all__ = ["MPS", "TIME_SLICED", "Sharing", "doubt", "predict"]
