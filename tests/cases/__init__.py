"""Tests of the way from options to cases."""
