"""Tests of `busbw.frameworks`."""
