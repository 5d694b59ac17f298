"""Use cases: read facts → plan → run → record."""
