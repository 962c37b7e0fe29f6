"""Runners of the recorded behaviour of the real systems."""
