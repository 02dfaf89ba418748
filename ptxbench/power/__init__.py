"""Where power readings come from, and the energy that follows from them."""
