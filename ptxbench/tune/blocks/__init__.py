"""Block sizes: how full they make an SM, and the search for the best, of one kernel or several at once."""
