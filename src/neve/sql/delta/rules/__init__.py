"""The rules, one module per family of operators: what a kind of operator is, and how its rows follow their inputs."""

from __future__ import annotations
