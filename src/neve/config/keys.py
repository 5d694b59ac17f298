"""The names of the settings: dotted in flags and in what is shown, `NEVE_…__…` in the environment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Literal, get_origin

from neve.config.settings import Section, Settings, is_section

ENV_PREFIX = "NEVE_"
Path = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingKey:
    """A setting that can be given as a whole. Below a mapping, any further name is a key of it."""

    path: Path
    kind: Literal["value", "list", "mapping"]

    @property
    def name(self) -> str:
        return ".".join(self.path)

    @property
    def env_name(self) -> str:
        return ENV_PREFIX + "__".join(self.path).upper()


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A value that one layer gives, and the place to name when asked where it came from."""

    path: Path
    value: object = field(repr=False)
    source: str


@cache
def setting_keys() -> tuple[SettingKey, ...]:
    """Every setting, in the order of neve.yaml."""
    return tuple(_keys_of(Settings, ()))


def _keys_of(section: type[Section], above: Path) -> Iterator[SettingKey]:
    for name, info in section.model_fields.items():
        path = (*above, name)
        if is_section(info.annotation):
            yield from _keys_of(info.annotation, path)
        elif get_origin(info.annotation) is dict:
            yield SettingKey(path=path, kind="mapping")
        else:
            yield SettingKey(path=path, kind="list" if get_origin(info.annotation) is tuple else "value")
