"""Black-box tests of `--program`."""
