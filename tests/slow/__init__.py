"""Tests of `busbw.slow`."""
