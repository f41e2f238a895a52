"""Tests of the forms that a table can take."""
