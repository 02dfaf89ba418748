"""The search spaces, one table an element type."""
