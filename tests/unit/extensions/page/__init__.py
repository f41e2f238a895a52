"""Tests of pages and charts."""
