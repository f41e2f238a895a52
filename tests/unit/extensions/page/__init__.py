"""Tests of pages and figures."""
