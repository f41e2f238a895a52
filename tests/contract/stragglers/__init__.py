"""Black-box tests of `busbw find-slow`."""
