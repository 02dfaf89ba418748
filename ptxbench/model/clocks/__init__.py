"""Power, energy and time over the SM clock: the ridge point, the clock under a limit, the best clock."""
