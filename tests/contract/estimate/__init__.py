"""Black-box tests of `busbw estimate`."""
