"""The words of the domain: no I/O, no engine, no database."""
