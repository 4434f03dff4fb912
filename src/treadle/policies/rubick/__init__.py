"""Rubick (Zhang et al., MLSys'25): devices and execution plans together."""
