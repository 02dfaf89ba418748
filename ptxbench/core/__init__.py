"""What every other package shares: errors, status codes, time, estimates, what a GPU is."""
