"""Recordings as XProf's own tools read them, against the reader that is here."""
