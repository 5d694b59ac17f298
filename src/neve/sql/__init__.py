"""Text to tree and back, pure: no engine, no database."""
