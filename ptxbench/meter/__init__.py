"""External power meters: readers of their CSV, alignment of clocks, error figures."""
