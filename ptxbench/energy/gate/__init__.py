"""The gate: what may be believed of a source's readings. All that turns readings into joules asks it."""
