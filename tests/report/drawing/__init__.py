"""Tests of `busbw.report.drawing`."""
