"""Black-box tests of `--topology`."""
