"""Tests of `busbw.estimate`."""
