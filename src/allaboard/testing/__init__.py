"""Worlds, builders, clocks and an in-process cluster, for our tests and for yours."""
