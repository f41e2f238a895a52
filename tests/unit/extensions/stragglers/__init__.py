"""Tests of `busbw.extensions.stragglers`."""
