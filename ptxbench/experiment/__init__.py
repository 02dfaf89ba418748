"""Plans a run, measures it trial by trial, and keeps going when a kernel fails."""
