"""The version of Treadle, in one place."""

__version__ = "0.1.0"
