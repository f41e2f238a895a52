"""Tests of `busbw.report.charts`."""
