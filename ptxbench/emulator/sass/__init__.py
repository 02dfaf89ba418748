"""Machine code, run in numpy on all lanes of a sample of a launch's blocks."""
