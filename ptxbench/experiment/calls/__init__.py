"""Functions that are called again and again: what a call takes, and which of several takes less."""
