"""On programs' text, with no framework."""
