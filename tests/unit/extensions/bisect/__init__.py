"""Tests of `busbw.extensions.bisect`."""
