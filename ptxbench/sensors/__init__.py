"""Where power readings come from, and what each power source is like."""
