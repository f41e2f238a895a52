"""Tests of `busbw.studies.estimate`."""
