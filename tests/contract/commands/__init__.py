"""Black-box tests of the commands, each in a process of its own."""
