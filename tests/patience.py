"""How long a test waits for what must come: only a hang takes longer, however busy the machine."""

PATIENCE = 300  # seconds
