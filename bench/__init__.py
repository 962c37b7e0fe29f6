"""How fast it is: `make bench` prints every number beside its bar, and fails past the limits."""
