"""Tests of `busbw.costmodel`."""
