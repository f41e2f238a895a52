"""Load busbw's plugin for every test below this folder."""

pytest_plugins = ["busbw.plugin"]
