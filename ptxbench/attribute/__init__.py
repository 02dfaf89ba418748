"""The energy of an unmodified program, by GPU and by kernel name."""
