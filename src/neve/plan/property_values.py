"""Values of Iceberg's own properties: every commit reads some of them first, so one that cannot be read could not be
taken back either."""

from __future__ import annotations

from collections.abc import Mapping

from neve.errors import InvalidInput

_INT, _LONG = 2**31 - 1, 2**63 - 1
_PAGES = ("row-group-size-bytes", "page-size-bytes", "page-row-limit", "dict-size-bytes")
_WAITS = ("min-wait-ms", "max-wait-ms", "total-timeout-ms")
_RANGES: Mapping[str, tuple[int, int]] = {
    **{f"write{kind}.parquet.{name}": (1, _INT) for kind in ("", ".delete") for name in _PAGES},
    **{f"write{kind}.target-file-size-bytes": (1, _LONG) for kind in ("", ".delete")},
    **{f"commit.{of}.{name}": (0, _INT) for of in ("retry", "status-check") for name in ("num-retries", *_WAITS)},
    "commit.manifest.target-size-bytes": (1, _LONG),
    "commit.manifest.min-count-to-merge": (1, _INT),
    "history.expire.max-snapshot-age-ms": (0, _LONG),
    "history.expire.max-ref-age-ms": (0, _LONG),
    "history.expire.min-snapshots-to-keep": (1, _INT),
    "read.split.target-size": (1, _LONG),
    "read.split.metadata-target-size": (1, _LONG),
    "read.split.planning-lookback": (1, _INT),
    "read.split.open-file-cost": (0, _LONG),
    "write.metadata.previous-versions-max": (1, _INT),
    "write.metadata.metrics.max-inferred-column-defaults": (0, _INT),
    "write.summary.partition-limit": (0, _INT),
}
_FLAG = ("true", "false")
_MODES = ("merge-on-read", "copy-on-write")
_DISTRIBUTIONS = ("none", "hash", "range")
_FORMATS = ("parquet", "avro", "orc")
_ROW_CHANGES = ("delete", "update", "merge")
_WORDS: Mapping[str, tuple[str, ...]] = {
    **{f"write.{change}.mode": _MODES for change in _ROW_CHANGES},
    **{f"write.{change}.distribution-mode": _DISTRIBUTIONS for change in _ROW_CHANGES},
    **{f"write.{change}.isolation-level": ("serializable", "snapshot") for change in _ROW_CHANGES},
    "write.distribution-mode": _DISTRIBUTIONS,
    "write.format.default": _FORMATS,
    "write.delete.format.default": _FORMATS,
    "write.delete.granularity": ("file", "partition"),
    "commit.manifest-merge.enabled": _FLAG,
    "gc.enabled": _FLAG,
    "write.metadata.delete-after-commit.enabled": _FLAG,
    "write.object-storage.enabled": _FLAG,
    "write.object-storage.partitioned-paths": _FLAG,
    "write.spark.fanout.enabled": _FLAG,
    "write.wap.enabled": _FLAG,
}


def check_value(key: str, value: str) -> None:
    """Raises InvalidInput for a value that Iceberg could not read.

    >>> check_value("gc.enabled", "TRUE"), check_value("owner", "anybody"), check_value("commit.retry.num-retries", "0")
    (None, None, None)
    """
    if (words := _WORDS.get(key)) and value.lower() not in words:
        raise InvalidInput(f"{key} is {value!r}, and should be {' or '.join(words)}")
    if key not in _RANGES:
        return
    least, most = _RANGES[key]
    if not (value.isascii() and value.isdigit() and least <= int(value) <= most):
        raise InvalidInput(f"{key} is {value!r}, and should be a whole number from {least:,} to {most:,}")
