"""Dynamic tables: declared by a query, kept equal to it by what changed in its sources."""
