"""The plugins: one framework or scheduler, one file. Their order in the registry is the order they run in."""
