"""External meters that are read while a GPU works: a port, what its bytes mean, and a thread."""
