"""Black-box tests of `busbw bisect`."""
