"""Encodings of text, as people name them and as Java does."""

from __future__ import annotations

import codecs

_PYTHON_TO_JAVA = {
    "utf-8": "UTF-8",
    "ascii": "US-ASCII",
    "utf-16": "UTF-16",
    "utf-16-be": "UTF-16BE",
    "utf-16-le": "UTF-16LE",
    "utf-32": "UTF-32",
    **{f"iso8859-{part}": f"ISO-8859-{part}" for part in (1, 2, 4, 5, 7, 9, 13, 15)},
    **{f"cp125{part}": f"windows-125{part}" for part in range(9)},
    "koi8-r": "KOI8-R",
    "shift_jis": "Shift_JIS",
    "euc_jp": "EUC-JP",
    "euc_kr": "EUC-KR",
    "gbk": "GBK",
    "gb18030": "GB18030",
    "big5": "Big5",
}

KNOWN = tuple(_PYTHON_TO_JAVA.values())


def java_name(encoding: str) -> str | None:
    """What Java calls an encoding that both it and Python know; None for others.

    >>> java_name("latin1"), java_name("Windows-1252"), java_name("UTF8"), java_name("klingon")
    ('ISO-8859-1', 'windows-1252', 'UTF-8', None)
    """
    try:
        return _PYTHON_TO_JAVA.get(codecs.lookup(encoding).name)
    except LookupError:
        return None
