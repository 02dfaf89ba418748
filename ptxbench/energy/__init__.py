"""From recorded power readings and a time window to energy: pure functions."""
