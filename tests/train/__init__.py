"""Tests of treadle.train."""
