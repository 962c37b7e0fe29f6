"""The composition root: the only room that knows every room, and the place where a plane is put together."""
