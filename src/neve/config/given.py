"""Settings given as text: variables of the environment, and flags.

    NEVE_SPARK__MASTER=local[2]                     one value
    NEVE_SPARK__PACKAGES=g:a:1,g:b:2                a list, separated by commas or as a JSON array
    NEVE_SPARK__CONF=spark.ui.enabled=true,a.b=1    keys of a mapping, in the same way or as a JSON object
    NEVE_SPARK__CONF__spark.ui.enabled=true         one key of a mapping, its name as it stands

A shell cannot export a name with dots, but `env`, Docker and Kubernetes can pass it; the third form works everywhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TypeVar

from neve.config.keys import ENV_PREFIX, Entry, Path, SettingKey, setting_keys
from neve.errors import ConfigError, nearest
from neve.model.environment import WHERE

_Json = TypeVar("_Json", list[object], dict[str, object])


def read_env(env: Mapping[str, str]) -> list[Entry]:
    """What the variables set; those without the prefix NEVE_ are others' business.

    NEVE_LAKE, NEVE_SERVER and NEVE_KEY say where a lake is, and set nothing in it.

    Raises:
        ConfigError: names every variable that is unknown or cannot be read.
    """
    given = {name: env[name] for name in sorted(env) if name.startswith(ENV_PREFIX) and name not in WHERE}
    known = {key.env_name: key for key in setting_keys()}
    return _read(given, known, source="env ", separator="__", others=[*WHERE])


def read_flags(flags: Mapping[str, str]) -> list[Entry]:
    """What the flags set; their names are dotted keys.

    Raises:
        ConfigError: names every flag that is unknown or cannot be read.
    """
    return _read(flags, {key.name: key for key in setting_keys()}, source="flag --", separator=".", others=[])


def _read(
    given: Mapping[str, str], known: Mapping[str, SettingKey], *, source: str, separator: str, others: list[str]
) -> list[Entry]:
    entries, problems = [], []
    for name, text in given.items():
        place = f"{source}{name}"
        found = _find(name, known, separator=separator)
        if found is None:
            problems.append(f"{place}: {_describe_unknown(name, [*known, *others], separator=separator)}")
            continue
        try:
            entries += [Entry(path=path, value=value, source=place) for path, value in _parse(*found, text)]
        except ValueError as exc:
            problems.append(f"{place}: {exc}")
    if problems:
        raise ConfigError("\n".join(problems))
    return entries


def _find(name: str, known: Mapping[str, SettingKey], *, separator: str) -> tuple[SettingKey, Path] | None:
    if name in known:
        return known[name], known[name].path
    for known_name, key in known.items():
        inner = name.removeprefix(known_name + separator)
        if key.kind == "mapping" and inner not in {name, ""}:
            return key, (*key.path, inner)
    return None


def _describe_unknown(name: str, known: list[str], *, separator: str) -> str:
    below = [candidate for candidate in known if candidate.startswith(name + separator)]
    if below:
        return f"this is a section; set {', '.join(below)}"
    return f"no such setting; {nearest(name, known) or '`neve config show` lists them all'}"


def _parse(key: SettingKey, path: Path, text: str) -> Iterator[tuple[Path, object]]:
    """The text never gets into a message: it may be a secret."""
    if key.kind == "value" or path != key.path:
        yield path, text
    elif key.kind == "list":
        yield path, _parse_json(text, list, "array") if text.lstrip().startswith("[") else _split(text)
    else:
        mapping = _parse_json(text, dict, "object") if text.lstrip().startswith("{") else _parse_pairs(text)
        yield from ((((*path, name), value) for name, value in mapping.items()) if mapping else [(path, {})])


def _parse_json(text: str, kind: type[_Json], said: str) -> _Json:
    try:
        value = json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        value = None
    if not isinstance(value, kind):
        raise ValueError(f"not a valid JSON {said}")  # noqa: TRY004
    return value


def _split(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _parse_pairs(text: str) -> dict[str, object]:
    pairs: dict[str, object] = {}
    for item in _split(text):
        name, equals, value = item.partition("=")
        if not equals or not name.strip():
            raise ValueError("write key=value pairs separated by commas, or a JSON object")
        pairs[name.strip()] = value.strip()
    return pairs
