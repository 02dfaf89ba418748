"""What a power source is like, found from recordings of a known load."""
