"""Black-box tests of `--soak`, `--require-signature` and health counters."""
