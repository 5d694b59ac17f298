"""The settings of a lake: neve.yaml, the environment, flags and profiles, and where each value came from."""

from __future__ import annotations

from neve.config.layers import LoadedSettings, find_lake, load_settings
from neve.config.secrets import mask_url
from neve.config.settings import (
    PROFILES,
    CatalogSettings,
    CommitSettings,
    CompactionSettings,
    Profile,
    RetentionSettings,
    S3Settings,
    Settings,
    SparkSettings,
    StateSettings,
    StatisticsSettings,
    TrashSettings,
    WriteSettings,
)
from neve.config.show import NEVE_YAML, SettingRow, render_settings

__all__ = [
    "NEVE_YAML",
    "PROFILES",
    "CatalogSettings",
    "CommitSettings",
    "CompactionSettings",
    "LoadedSettings",
    "Profile",
    "RetentionSettings",
    "S3Settings",
    "SettingRow",
    "Settings",
    "SparkSettings",
    "StateSettings",
    "StatisticsSettings",
    "TrashSettings",
    "WriteSettings",
    "find_lake",
    "load_settings",
    "mask_url",
    "render_settings",
]
