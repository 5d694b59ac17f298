from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.errors import InvalidInput
from neve.model.units import format_bytes, format_count, format_duration, parse_duration, parse_size


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7d", timedelta(days=7)),
        ("2 h", timedelta(hours=2)),
        ("90 minutes", timedelta(minutes=90)),
        ("1h30m", timedelta(minutes=90)),
        (" 1 Day 2 HOURS ", timedelta(days=1, hours=2)),
        ("2w", timedelta(days=14)),
        ("0.5s", timedelta(milliseconds=500)),
        ("250ms", timedelta(milliseconds=250)),
        ("0", timedelta(0)),
        ("0d", timedelta(0)),
    ],
)
def test_durations_are_read(text, expected):
    assert parse_duration(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "7",
        "d",
        "-1d",
        "1 month",
        "1y",
        "30m1h",
        "1h1h",
        "1h,30m",
        "1e3s",
        "\u0667d",
        "1..5h",
        "9" * 5000 + "d",
        "1h 30",
    ],
)
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(InvalidInput, match="not a duration"):
        parse_duration(text)


def test_a_duration_that_no_timedelta_holds_is_refused():
    with pytest.raises(InvalidInput, match="too long"):
        parse_duration("999999999999w")


@given(st.timedeltas(min_value=timedelta(0)))
def test_a_shown_duration_reads_back(duration):
    assert parse_duration(format_duration(duration)) == duration


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("128MB", 128 * 10**6),
        ("128 MiB", 128 * 2**20),
        ("1.5GiB", 3 * 2**29),
        ("0 B", 0),
        ("2tb", 2 * 10**12),
        ("1PiB", 2**50),
    ],
)
def test_sizes_are_read(text, expected):
    assert parse_size(text) == expected


@pytest.mark.parametrize("text", ["", "128", "MB", "-1MB", "1.MB", "12 parsecs", "1MB2KB", "128M"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(InvalidInput, match="not a size"):
        parse_size(text)


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 KB"),
        (9_949, "9.9 KB"),
        (9_951, "10 KB"),
        (999_499, "999 KB"),
        (999_500, "1.0 MB"),
        (1_234_567, "1.2 MB"),
        (31_000_000, "31 MB"),
        (5 * 10**18, "5,000 PB"),
        (-2_000, "-2.0 KB"),
    ],
)
def test_bytes_are_shown_with_two_or_three_digits(count, expected):
    assert format_bytes(count) == expected


def test_counts_are_shown_in_thousands():
    assert [format_count(n) for n in (0, 999, 12345, -1234567)] == ["0", "999", "12,345", "-1,234,567"]
