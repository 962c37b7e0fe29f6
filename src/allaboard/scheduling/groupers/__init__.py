"""How each kind of workload becomes gangs: one family, one file, and a table from kind to function."""
