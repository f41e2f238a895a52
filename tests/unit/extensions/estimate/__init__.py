"""Tests of `busbw.extensions.estimate`."""
