"""The tests that measure. Each test only asserts that the verdict of a case did not fail."""
