"""A run on disk: manifest, trials, traces, kernels, table."""
