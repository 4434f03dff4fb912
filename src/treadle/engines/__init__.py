"""Engines that run jobs for real; the local one runs processes on this machine."""
