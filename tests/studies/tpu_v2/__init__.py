"""Tests of `busbw.studies.tpu_v2`."""
