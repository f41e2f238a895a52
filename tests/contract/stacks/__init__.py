"""Black-box tests of `busbw stack`."""
