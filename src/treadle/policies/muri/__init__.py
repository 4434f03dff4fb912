"""Muri (Zhao et al., SIGCOMM'22): groups of jobs that share devices."""
