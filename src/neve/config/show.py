"""Settings for people: the rows of `neve config show`, and the neve.yaml that `neve init` writes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from pydantic import BaseModel, ConfigDict, SecretStr

from neve.config.keys import Path, SettingKey, setting_keys
from neve.config.layers import LoadedSettings
from neve.config.secrets import MASK, is_secret_key, mask_url
from neve.config.settings import Section, Settings, is_section
from neve.model.units import format_duration

_COMMENT_COLUMN = 42
_HEAD = """\
# The settings of this lake. Each line that starts with '#' and a key shows a default: remove the '#' to change it.
# Stronger than this file are NEVE_* variables, such as NEVE_SPARK__MASTER, and then flags.
# `neve config show` prints every value and where it came from.
"""
_PROFILES = """\
# What a profile changes in this lake, with the same keys as above.
profiles:
#  prod:
#    warehouse: s3://bucket/lake
"""


class SettingRow(BaseModel):
    """A setting as it may be shown: secrets are masked, an unset value is empty."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    key: str
    value: str
    source: str


def render_settings(loaded: LoadedSettings) -> list[SettingRow]:
    """One row per setting, and per key of `spark.conf` and `catalog.properties`."""
    return [
        SettingRow(key=".".join(path), value=shown, source=loaded.sources[".".join(path)])
        for key in setting_keys()
        for path, shown in _show(key, _value_at(loaded.settings, key.path))
    ]


def _value_at(settings: Settings, path: Path) -> object:
    value: object = settings
    for name in path:
        value = getattr(value, name)
    return value


def _show(key: SettingKey, value: object) -> Iterator[tuple[Path, str]]:
    if isinstance(value, dict) and value:
        yield from (
            ((*key.path, name), MASK if is_secret_key(name) else mask_url(text)) for name, text in value.items()
        )
    else:
        yield key.path, _show_value(value)


def _show_value(value: object) -> str:
    match value:
        case None | dict():
            return ""
        case SecretStr():
            return MASK
        case bool():
            return str(value).lower()
        case timedelta():
            return format_duration(value)
        case tuple():
            return ", ".join(map(str, value))
    return mask_url(str(value))


def _write_template() -> str:
    parts = [_HEAD]
    for name, field in Settings.model_fields.items():
        if is_section(field.annotation):
            parts.append(f"# {field.annotation.__doc__}\n{name}:\n" + "".join(_template_lines(field.annotation)))
        else:
            parts.append(f"# {field.description}\n#{name}: {_show_yaml(field.default)}\n")
    return "\n".join([*parts, _PROFILES])


def _template_lines(section: type[Section]) -> Iterator[str]:
    for name, field in section.model_fields.items():
        yield f"{f'#  {name}: {_show_yaml(field.default)}':{_COMMENT_COLUMN}}# {field.description}\n"


def _show_yaml(value: object) -> str:
    match value:
        case None:
            return "null"
        case dict():
            return "{}"
        case tuple():
            return "[]"
    return _show_value(value)


NEVE_YAML: str = _write_template()
"""Sets nothing: every key is commented out beside its explanation, and a bare section header changes nothing."""
