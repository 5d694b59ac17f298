"""Which files of a folder nothing names: beside a model that asks of each file by itself."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.errors import InvalidInput, StorageError
from neve.model.retention import Listed
from neve.plan.orphans import FLOOR, Named, check_age, cut_off, find_orphans

NOW = datetime(2026, 11, 16, tzinfo=UTC)
DAY = timedelta(days=1)
PATHS = [
    "/w/t/data/a.parquet",
    "/w/t/data/.a.parquet.crc",
    "/w/t/data/p=1/b.parquet",
    "/w/t/metadata/1.metadata.json",
    "/w/t/metadata/version-hint.text",
    "/w/t/metadata/.version-hint.text.crc",
    "/w/t/inner/data/c.parquet",
    "/w/t/inner-not/c.parquet",
    "/w/t/.hidden",
]
files = st.dictionaries(st.sampled_from(PATHS), st.none() | st.integers(0, 20))


@given(files, st.sets(st.sampled_from(PATHS)), st.booleans(), st.integers(1, 20))
def test_nothing_goes_that_should_stay(ages: dict[str, int | None], named: set[str], nested: bool, limit: int) -> None:
    listed = [Listed(path, 1, None if age is None else NOW - age * DAY) for path, age in ages.items()]
    folders = {"/w/t/inner"} if nested else set()
    before = cut_off(NOW, limit * DAY, [])
    found = find_orphans(listed, Named(files=named, folders=folders), before=before)

    def stays(path: str) -> bool:
        whole = path.replace("/.", "/").removesuffix(".crc") if path.endswith(".crc") else path
        return whole in named or whole.endswith("version-hint.text")

    def others(path: str) -> bool:
        return nested and path.startswith("/w/t/inner/")

    wanted = {
        path for path, age in ages.items() if not stays(path) and not others(path) and age is not None and age > limit
    }
    assert {file.path for file in found.found} == wanted
    assert found.bytes == len(wanted)
    loose = [path for path in ages if not stays(path)]
    assert len(loose) == len(found.found) + found.young + found.unknown_age + found.others


def test_nothing_that_came_since_work_began_that_has_not_ended() -> None:
    listed = [Listed("/w/t/data/a.parquet", 1, NOW - 10 * DAY)]
    named = Named(files=())
    assert find_orphans(listed, named, before=cut_off(NOW, 7 * DAY, [])).found
    assert not find_orphans(listed, named, before=cut_off(NOW, 7 * DAY, [NOW - 11 * DAY, NOW - DAY])).found


def test_the_floor_is_a_day() -> None:
    assert check_age(FLOOR) == DAY
    with pytest.raises(InvalidInput, match="not committed them yet") as caught:
        check_age(FLOOR - timedelta(microseconds=1))
    assert caught.value.hint == "--older-than 24h or more"


def test_a_listing_by_other_paths_is_refused() -> None:
    """If the table's own metadata is not listed, paths differ, and every file would look like an orphan."""
    listed = [Listed("/mnt/t/metadata/1.metadata.json", 1, NOW - 30 * DAY)]
    named = Named(files={"/w/t/metadata/1.metadata.json"}, must_be_listed={"/w/t/metadata/1.metadata.json"})
    with pytest.raises(StorageError, match="paths cannot be compared"):
        find_orphans(listed, named, before=NOW)
