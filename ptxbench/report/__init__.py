"""What was measured, shown: tables and plots."""
