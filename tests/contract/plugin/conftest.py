"""The folder that sessions run in, for each test that asks for it."""

from tests.helpers.session_fixtures import folder, forked, written

__all__ = ["folder", "forked", "written"]
