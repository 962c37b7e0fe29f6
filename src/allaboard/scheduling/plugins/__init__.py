"""What each plugin of a policy thinks: small classes with a name and methods named after the points of `points.py`."""
