"""What a cycle does, in order: each action is a function over a session."""
