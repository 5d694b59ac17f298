"""Layers of settings, the later the stronger, and where each value came from.

    defaults → built-in profile values → neve.yaml → profiles.<profile> in neve.yaml → NEVE_* variables → flags

A layer overrides by naming a key, whatever the value: `false`, `0` and empty text count. `spark.conf` and
`catalog.properties` are merged key by key; an empty mapping (`{}`, or an empty variable) clears what lies below it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from neve.config import keys
from neve.config.given import read_env, read_flags
from neve.config.keys import Entry, setting_keys
from neve.config.settings import PROFILE_VALUES, Section, Settings, SettingsFile, is_section
from neve.documents import Document, check_document, load_document, parse_data

FILE_NAME = "neve.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSettings:
    """Settings with the lake folder applied; `sources` names the origin of every dotted key."""

    settings: Settings
    root: Path
    sources: dict[str, str]

    @property
    def warehouse_location(self) -> str:
        """An absolute path without a scheme, or s3://… without a slash at its end."""
        warehouse = self.settings.warehouse
        return warehouse.rstrip("/") if warehouse.startswith("s3://") else str(self._within(warehouse))

    @property
    def state_uri(self) -> str:
        """`sqlite:////absolute/path`, or `postgresql://…`, which may hold a password."""
        return self._database(self.settings.state.uri or "sqlite:///.metadata.db")

    @property
    def catalog_uri(self) -> str | None:
        """As `state_uri`, or the address of the service; None for Glue without an endpoint of its own."""
        catalog = self.settings.catalog
        uri = "sqlite:///catalog.db" if catalog.uri is None and catalog.type == "sqlite" else catalog.uri
        return None if uri is None else self._database(uri)

    @property
    def jars_folder(self) -> Path | None:
        """The offline folder of jars, absolute."""
        jars = self.settings.spark.jars
        return None if jars is None else self._within(jars)

    def _within(self, path: str) -> Path:
        return (self.root / Path(path).expanduser()).resolve()

    def _database(self, uri: str) -> str:
        path = uri.removeprefix("sqlite:///")
        return uri if path == uri else f"sqlite:///{self._within(path)}"


def find_lake(start: Path) -> Path | None:
    """The nearest folder, from `start` upwards, that holds neve.yaml."""
    folder = start.resolve()
    return next((candidate for candidate in (folder, *folder.parents) if (candidate / FILE_NAME).is_file()), None)


def load_settings(
    root: Path, *, flags: Mapping[str, str], env: Mapping[str, str], profile: str | None = None
) -> LoadedSettings:
    """All layers as one; a lake without neve.yaml has the others. `flags` are dotted keys, `profile` is --profile.

    Raises:
        ConfigError: an unknown key, variable or flag, with the nearest known one, or a value that does not fit, each
            with its place. All of neve.yaml is checked, the sections of other profiles too.
    """
    root = root.resolve()
    document = _load_file(root / FILE_NAME)
    written = list(_read_file(document, ()))
    given = [*read_env(env), *read_flags(flags if profile is None else {**flags, "profile": profile})]
    chosen = next((str(entry.value) for entry in reversed([*written, *given]) if entry.path == ("profile",)), "dev")
    merged = _Merged()
    merged.apply(_read_builtin(chosen))
    merged.apply(written)
    merged.apply(_read_file(document, ("profiles", chosen)))
    merged.apply(given)
    return LoadedSettings(settings=merged.parse(), root=root, sources=merged.sources())


class _Merged:
    """The strongest entry for each path so far; keys of a mapping are paths of their own."""

    def __init__(self) -> None:
        self._entries: dict[keys.Path, Entry] = {}

    def apply(self, layer: Iterable[Entry]) -> None:
        for entry in layer:
            if entry.value == {}:
                for path in self._below(entry.path):
                    del self._entries[path]
            self._entries[entry.path] = entry

    def parse(self) -> Settings:
        data: dict[str, object] = {}
        for path, entry in self._entries.items():
            if entry.value == {}:
                continue
            section = data
            for step in path[:-1]:
                section = section.setdefault(step, {})  # type: ignore[assignment]
            section[path[-1]] = entry.value
        return parse_data(data, Settings, locate=lambda path: self._source(tuple(map(str, path))))

    def sources(self) -> dict[str, str]:
        paths = [path for key in setting_keys() for path in (self._below(key.path) or [key.path])]
        return {".".join(path): self._source(path) for path in paths}

    def _below(self, mapping: keys.Path) -> list[keys.Path]:
        return [path for path in self._entries if len(path) > len(mapping) and path[: len(mapping)] == mapping]

    def _source(self, path: keys.Path) -> str:
        around = (self._entries.get(path[:length]) for length in range(len(path), 0, -1))
        return next((entry.source for entry in around if entry is not None), "default")


def _read_builtin(profile: str) -> list[Entry]:
    values = PROFILE_VALUES.get(profile, {})
    return [Entry(path=path, value=value, source=f"profile {profile}") for path, value in values.items()]


def _load_file(path: Path) -> Document:
    if not path.exists():
        return Document(path=path, data={}, lines={})
    document = load_document(path)
    check_document(document, SettingsFile)
    return document


def _read_file(document: Document, at: keys.Path) -> Iterator[Entry]:
    """What a checked file sets at its root, or in the section of a profile."""
    data: object = document.data
    for step in at:
        data = data.get(step) if isinstance(data, dict) else None
    suffix = f" ({'.'.join(at)})" if at else ""
    for path, value in _read_section(data, Settings, ()):
        yield Entry(path=path, value=value, source=f"{FILE_NAME}:{document.line_of((*at, *path))}{suffix}")


def _read_section(data: object, section: type[Section], above: keys.Path) -> Iterator[tuple[keys.Path, object]]:
    for key, value in data.items() if isinstance(data, dict) else ():
        field, path = section.model_fields.get(key), (*above, key)
        if field is None or (value is None and section.holds_several(key)):
            continue
        if is_section(field.annotation):
            yield from _read_section(value, field.annotation, path)
        elif isinstance(value, dict) and value:
            yield from (((*path, inner), item) for inner, item in value.items())
        else:
            yield path, value
