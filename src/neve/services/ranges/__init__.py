"""Key-range tables: their ranges, reads by key, and how ranges are divided."""
