"""Tests of busbw.report.page."""
