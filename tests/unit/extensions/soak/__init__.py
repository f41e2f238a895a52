"""Tests of `busbw.extensions.soak`."""
