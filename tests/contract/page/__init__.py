"""Black-box tests of `busbw figure and busbw page`."""
