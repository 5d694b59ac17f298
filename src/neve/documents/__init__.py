"""YAML files that remember where each key was written, and models read from them with errors that say so."""

from __future__ import annotations

from neve.documents.annotations import KeyPath
from neve.documents.loading import Document, load_document
from neve.documents.validation import check_document, parse_data, parse_document, parse_mapping, unmet

__all__ = [
    "Document",
    "KeyPath",
    "check_document",
    "load_document",
    "parse_data",
    "parse_document",
    "parse_mapping",
    "unmet",
]
