"""Making lakes and finding them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from neve.config import NEVE_YAML, LoadedSettings, find_lake, load_settings
from neve.errors import AlreadyExists, ConfigError, LakeNotFound
from neve.model.environment import ENV_LAKE
from neve.model.names import DEFAULT_NAMESPACE
from neve.services.context import Context

FILE = "neve.yaml"


def create_lake(root: Path, *, env: Mapping[str, str]) -> LoadedSettings:
    """Writes neve.yaml, the state database, the catalog and the warehouse; an existing lake is left alone."""
    root = root.absolute()
    if (root / FILE).exists():
        raise AlreadyExists(f"{root} is a lake already", hint="its settings are in neve.yaml")
    if root.exists() and not root.is_dir():
        raise ConfigError(f"{root} is a file", hint="name a folder")
    load_settings(root, flags={}, env=env)  # bad settings in the environment must not leave half a lake
    try:
        root.mkdir(parents=True, exist_ok=True)
        (root / FILE).write_text(NEVE_YAML, encoding="utf-8")
    except OSError as exc:
        raise ConfigError(f"cannot make a lake in {root}: {exc.strerror}") from exc
    loaded = load_settings(root, flags={}, env=env)
    prepare_lake(loaded)
    return loaded


def prepare_lake(loaded: LoadedSettings) -> None:
    """Makes what a lake needs before its first table: warehouse folder, databases, default namespace."""
    if loaded.warehouse_location.startswith("/"):
        Path(loaded.warehouse_location).mkdir(parents=True, exist_ok=True)
    context = Context(loaded)
    context.catalog.ensure_namespace(DEFAULT_NAMESPACE)
    context.store.schema_version()
    context.close()


def locate_lake(start: Path, *, given: str | None, env: Mapping[str, str]) -> Path | None:
    """The lake's folder: the one named by a flag or NEVE_LAKE, else the nearest upwards; None when there is none."""
    named = given or env.get(ENV_LAKE)
    if not named:
        return find_lake(start)
    root = Path(named).expanduser().absolute()
    root = root.parent if root.name == FILE else root
    if not (root / FILE).is_file():
        raise LakeNotFound(f"{root} is not a lake: it has no {FILE}", hint=f"make one: neve init {root}")
    return root
