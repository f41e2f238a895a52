"""Tests of `busbw.studies.prediction`."""
