"""Compaction of Iceberg tables: looking, planning, rewriting files, and committing them in the place of others."""
