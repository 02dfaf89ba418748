"""Clocks and power limits as axes of a tuning: strategies, ranking without measuring, how hard a space is."""
