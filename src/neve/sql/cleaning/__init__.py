"""From a cleaning file to Spark SQL: one SELECT that cleans rows and says which rules each broke, and its checks.

Pure text work: no value is pasted, every name is quoted, and an expression of the file is taken only when it is one
scalar expression over columns that exist.
"""

from __future__ import annotations

from neve.sql.cleaning.select import Cleaning, build_cleaning
from neve.sql.cleaning.validations import Finding, Validation, build_validations, judge

__all__ = ["Cleaning", "Finding", "Validation", "build_cleaning", "build_validations", "judge"]
