"""From a cubin to its loop, counted and checked."""
