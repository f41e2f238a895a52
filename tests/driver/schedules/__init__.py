"""Schedules over the shipped fake back end: orders, sides, several at once."""
