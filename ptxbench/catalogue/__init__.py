"""What can be measured: rows of data, one an instruction."""
