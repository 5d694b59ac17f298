"""What may be shown of a value that may hold a secret. When in doubt, less is shown."""

from __future__ import annotations

import re
from collections.abc import Mapping

MASK = "********"
_TELLTALE = (
    r"(?:pass(?:word|wd|phrase)|\bpwd\b|secret|token|credential|signature|authorization"
    r"|(?:access|account|api|private|shared|encryption|master|sas)[-_.]?key)"
)
_TELLTALE_KEY = re.compile(_TELLTALE, re.IGNORECASE)
_USER_PASSWORD = re.compile(r"(://[^:@]*):.*@", re.DOTALL)
_SECRET_PARAMETER = re.compile(rf"((?:^|[?&;\s])[^=&;?\s]*{_TELLTALE}[^=&;?\s]*)=[^&;\s]*", re.IGNORECASE)


def is_secret_key(key: str) -> bool:
    """Whether a free-form property, such as a Spark conf key, names a secret.

    >>> is_secret_key("spark.hadoop.fs.s3a.secret.key"), is_secret_key("spark.sql.shuffle.partitions")
    (True, False)
    """
    return _TELLTALE_KEY.search(key) is not None


def mask_url(text: str) -> str:
    """The text without the password of a URL in it, be it before the host or among the parameters.

    >>> mask_url("postgresql://ada:s3/cr@t@db/lake?sslmode=require&sslpassword=x")
    'postgresql://ada:********@db/lake?sslmode=require&sslpassword=********'
    """
    return _SECRET_PARAMETER.sub(rf"\1={MASK}", _USER_PASSWORD.sub(rf"\1:{MASK}@", text))


def mask_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Values of keys that name a secret are hidden, passwords in URLs too."""
    return {key: MASK if is_secret_key(key) else mask_url(value) for key, value in properties.items()}
