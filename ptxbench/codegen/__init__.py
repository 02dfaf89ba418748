"""From a catalogue row to PTX text and on to a cubin."""
