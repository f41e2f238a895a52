"""Black-box tests of `busbw init` and `busbw doctor`."""
