"""The terminal door: one command, one file."""
