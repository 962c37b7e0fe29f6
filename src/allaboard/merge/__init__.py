"""How two documents become one: patches and server-side apply."""
