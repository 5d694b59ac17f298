"""From Spark SQL text to operators: names resolved, subqueries made joins, what has no rule named with its place."""

from __future__ import annotations
