"""From the trials of a run to the rows of its table: pure arithmetic, no GPU."""
