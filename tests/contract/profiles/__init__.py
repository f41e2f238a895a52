"""Black-box tests of `busbw trace`."""
