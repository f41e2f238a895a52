"""Tests of `busbw.studies`."""
