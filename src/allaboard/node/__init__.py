"""The local pod runner: bound pods become real processes."""
