"""Tests of `busbw.studies.parameter_server`."""
