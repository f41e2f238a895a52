"""Tests of the readers of recordings, made up and real."""
