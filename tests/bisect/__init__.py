"""Tests of `busbw.bisect`."""
