from __future__ import annotations

import calendar
from datetime import date, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.errors import InvalidInput
from neve.model.patterns import format_pattern, has_date, match_pattern, pattern_kind
from neve.model.periods import KINDS, Period, parse_period, period_of

EVERY_DAY = [date(1990, 1, 1) + timedelta(days=step) for step in range((date(2061, 1, 1) - date(1990, 1, 1)).days)]

DAY_PATTERNS = [
    ("{date}.parquet", "%Y-%m-%d"),
    ("sales_{date}.csv", "%Y%m%d"),
    ("{date}.csv", "%d.%m.%Y"),
    ("{date}.csv", "%d%b%Y"),
    ("{date}.csv", "%B %d, %Y"),
    ("{date}.csv", "%Y%j"),
    ("{date}.csv", "%G-W%V-%u"),
    ("{date}.csv", "%y%m%d"),
    ("{date}.csv", "100%%-%Y-%m-%d"),
    ("year={year}/month={month}/day={day}/data.parquet", "%Y-%m-%d"),
    ("{year}{month}{day}.parquet", "%Y-%m-%d"),
    ("{year}/Q{quarter}/{month}/{day}.parquet", "%Y-%m-%d"),
    ("year={year}/month={month}/{date}.parquet", "%Y-%m-%d"),
    ("{year}-W{week}/{date}.parquet", "%Y-%m-%d"),
    ("a+(b)[c].{{x}}.{date}", "%Y-%m-%d"),
]
PERIOD_PATTERNS = [
    ("{year}-W{week}.parquet", "week"),
    ("{year}-{month}.parquet", "month"),
    ("year={year}/quarter={quarter}/month={month}/data.parquet", "month"),
    ("{year}-Q{quarter}.parquet", "quarter"),
    ("sales/{year}.parquet", "year"),
]


class TestPeriod:
    @pytest.mark.parametrize(
        ("text", "kind", "first", "last"),
        [
            ("2024-01-15", "day", date(2024, 1, 15), date(2024, 1, 15)),
            ("2024-W05", "week", date(2024, 1, 29), date(2024, 2, 4)),
            ("2024-w05", "week", date(2024, 1, 29), date(2024, 2, 4)),
            ("2025-W01", "week", date(2024, 12, 30), date(2025, 1, 5)),
            ("2020-W53", "week", date(2020, 12, 28), date(2021, 1, 3)),
            ("2024-02", "month", date(2024, 2, 1), date(2024, 2, 29)),
            ("2023-02", "month", date(2023, 2, 1), date(2023, 2, 28)),
            ("1900-02", "month", date(1900, 2, 1), date(1900, 2, 28)),
            ("2024-Q1", "quarter", date(2024, 1, 1), date(2024, 3, 31)),
            ("2024-q4", "quarter", date(2024, 10, 1), date(2024, 12, 31)),
            ("2024", "year", date(2024, 1, 1), date(2024, 12, 31)),
        ],
    )
    def test_periods_are_read(self, text, kind, first, last):
        period = parse_period(text)
        assert (period.kind, period.first, period.last) == (kind, first, last)
        assert period.label == str(period) == text.upper()

    @pytest.mark.parametrize(
        "text",
        ["", " 2024", "2024-1", "2024-W5", "2024W05", "24-01", "2024-01-1", "2024/01", "2024-Q", "-2024",
         "January 2024", "2024-01\n", "٢٠٢٤", "2024-01-15T00:00", "20240115"],
    )  # fmt: skip
    def test_what_is_no_period_is_refused_with_examples(self, text):
        with pytest.raises(InvalidInput, match="not a period") as caught:
            parse_period(text)
        assert "2024-W05" in str(caught.value.hint)

    @pytest.mark.parametrize(
        ("text", "hint"),
        [
            ("2024-13", "2024-01"),
            ("2024-00", "2024-01"),
            ("2024-Q5", "2024-Q1"),
            ("2024-Q0", "2024-Q1"),
            ("0000", "2024"),
            ("0000-W01", "2024-W05"),
            ("9999-W52", "W01 to W52"),  # it ends in the year 10000
            ("2021-W53", "W01 to W52"),
            ("2020-W54", "W01 to W53"),
            ("2024-W00", "W01 to W52"),
            ("2023-02-29", "28 days"),
            ("2024-04-31", "30 days"),
            ("2024-13-01", "2024-01-15"),
        ],
    )
    def test_what_the_calendar_has_not_is_refused(self, text, hint):
        with pytest.raises(InvalidInput, match="the calendar has no") as caught:
            parse_period(text)
        assert hint in str(caught.value.hint)

    def test_every_day_lies_in_one_period_of_each_kind_and_the_periods_leave_no_gap(self):
        for kind in KINDS:
            for before, after in pairwise(EVERY_DAY):
                first, second = period_of(before, kind), period_of(after, kind)
                assert first.contains(before)
                if first != second:
                    assert (first.last, second.first) == (before, after)
                    assert first.next() == second
                    assert second.previous() == first

    def test_weeks_agree_with_the_iso_calendar(self):
        for day in EVERY_DAY:
            year, week, _ = day.isocalendar()
            assert period_of(day, "week").label == f"{year}-W{week:02}"

    @given(st.dates(date(1990, 1, 1), date(2060, 12, 31)), st.sampled_from(KINDS))
    def test_a_label_reads_back_to_its_period(self, day, kind):
        period = period_of(day, kind)
        assert parse_period(period.label) == period
        assert day in period.days()
        assert period.days() == tuple(sorted(period.days()))
        assert (period.days()[0], period.days()[-1]) == (period.first, period.last)

    def test_days_of_months_and_years_are_as_many_as_the_calendar_says(self):
        for year in range(1990, 2061):
            assert len(parse_period(f"{year}").days()) == 365 + calendar.isleap(year)
            for month in range(1, 13):
                assert len(parse_period(f"{year}-{month:02}").days()) == calendar.monthrange(year, month)[1]

    def test_a_longer_period_contains_a_shorter_one_only_whole(self):
        assert parse_period("2024-01").contains(parse_period("2024-W02"))
        assert not parse_period("2024-01").contains(parse_period("2024-W05"))
        assert parse_period("2024").contains(parse_period("2024-Q4"))
        assert not parse_period("2024").contains(parse_period("2025-W01"))

    def test_a_part_of_a_month_is_no_period(self):
        with pytest.raises(ValueError, match="not a whole month"):
            Period("month", date(2024, 1, 1), date(2024, 1, 30))

    def test_the_calendar_has_ends(self):
        with pytest.raises(InvalidInput, match="beyond 9999"):
            parse_period("9999").next()
        with pytest.raises(InvalidInput, match="beyond 0001-01"):
            parse_period("0001-01").previous()
        with pytest.raises(InvalidInput, match="beyond the calendar"):
            period_of(date.max, "week")


class TestPatterns:
    @pytest.mark.slow
    @pytest.mark.parametrize(("pattern", "date_format"), DAY_PATTERNS)
    def test_every_day_comes_back_and_no_two_days_share_a_name(self, pattern, date_format):
        names = [format_pattern(pattern, day, date_format) for day in EVERY_DAY]
        assert len(set(names)) == len(names)
        assert [match_pattern(pattern, name, date_format) for name in names] == EVERY_DAY

    @pytest.mark.parametrize(("pattern", "kind"), PERIOD_PATTERNS)
    def test_every_period_comes_back_and_no_two_share_a_name(self, pattern, kind):
        periods = {period_of(day, kind) for day in EVERY_DAY}
        names = {format_pattern(pattern, period): period for period in periods}
        assert len(names) == len(periods)
        assert all(match_pattern(pattern, name) == period for name, period in names.items())

    @pytest.mark.parametrize(("pattern", "kind"), PERIOD_PATTERNS)
    @pytest.mark.slow
    def test_a_day_has_the_name_of_its_period(self, pattern, kind):
        for day in EVERY_DAY:
            assert format_pattern(pattern, day) == format_pattern(pattern, period_of(day, kind))

    @given(
        st.dates(date(1990, 1, 1), date(2060, 12, 31)),
        st.lists(st.sampled_from([*(f"%{letter}" for letter in "YymbBdjGVu%"), *"-_é7"])),
    )
    def test_dates_are_written_as_python_writes_them(self, day, pieces):
        date_format = "%Y%m%d" + "".join(pieces)
        name = format_pattern("{date}", day, date_format)
        assert name == day.strftime(date_format)
        assert match_pattern("{date}", name, date_format) == day

    @given(
        st.lists(st.sampled_from(["{date}", "{year}", "{month}", "{week}", "{day}", "{quarter}", "-"])),
        st.dates(date(1990, 1, 1), date(2060, 12, 31)),
        st.dates(date(1990, 1, 1), date(2060, 12, 31)),
    )
    def test_a_pattern_is_accepted_only_if_it_determines_what_it_names(self, pieces, one, other):
        pattern = "".join(pieces)
        try:
            kind = pattern_kind(pattern)
        except InvalidInput:
            return
        same_period = period_of(one, kind) == period_of(other, kind)
        assert (format_pattern(pattern, one) == format_pattern(pattern, other)) == same_period
        found = match_pattern(pattern, format_pattern(pattern, one))
        assert found == (one if kind == "day" else period_of(one, kind))

    @given(st.sampled_from(DAY_PATTERNS), st.text(max_size=40))
    def test_any_text_is_matched_or_not_but_never_fails(self, given_pattern, name):
        found = match_pattern(given_pattern[0], name, given_pattern[1])
        assert found is None or format_pattern(given_pattern[0], found, given_pattern[1]).lower() == name.lower()

    @pytest.mark.parametrize(
        ("pattern", "name", "expected"),
        [
            ("{date}.parquet", "2024-01-15.parquet", date(2024, 1, 15)),
            ("{date}.parquet", "2024-02-30.parquet", None),
            ("{date}.parquet", "2024-00-01.parquet", None),
            ("{date}.parquet", "0000-01-01.parquet", None),
            ("{date}.parquet", "2024-1-15.parquet", None),
            ("{date}.parquet", "2024-01-15.parquet.tmp", None),
            ("{date}.parquet", "x2024-01-15.parquet", None),
            ("{date}.parquet", "2024-01-15xparquet", None),
            ("{date}.parquet", "2024-01-15.parquet\n", None),
            ("{date}.parquet", "٢٠٢٤-01-15.parquet", None),
            ("{date}.parquet", "2024-01.parquet", None),
            ("{year}-{month}.parquet", "2024-01.parquet", parse_period("2024-01")),
            ("{year}-{month}.parquet", "2024-01-01.parquet", None),
            ("{year}-{month}.parquet", "2024-13.parquet", None),
            ("{year}-W{week}.parquet", "2020-W53.parquet", parse_period("2020-W53")),
            ("{year}-W{week}.parquet", "2021-W53.parquet", None),
            ("{year}-W{week}.parquet", "9999-W52.parquet", None),
            ("{year}-Q{quarter}.parquet", "2024-Q5.parquet", None),
            ("year={year}/month={month}/day={day}/data.parquet", "year=2024/month=01/day=05/data.parquet",
             date(2024, 1, 5)),
            ("year={year}/month={month}/day={day}/data.parquet", "year=2024/month=1/day=5/data.parquet", None),
            ("year={year}/month={month}/{date}.parquet", "year=2024/month=02/2024-01-15.parquet", None),
            ("{year}-W{week}/{date}.parquet", "2025-W01/2024-12-30.parquet", date(2024, 12, 30)),
            ("{year}-W{week}/{date}.parquet", "2024-W01/2024-12-30.parquet", None),
        ],
    )  # fmt: skip
    def test_a_name_stands_for_its_day_or_period_or_for_nothing(self, pattern, name, expected):
        assert match_pattern(pattern, name) == expected

    @pytest.mark.parametrize(
        ("date_format", "name", "expected"),
        [
            ("%d%b%Y", "15JAN2024", date(2024, 1, 15)),
            ("%d%b%Y", "15Jän2024", None),
            ("%Y%j", "2023366", None),
            ("%Y%j", "2024366", date(2024, 12, 31)),
            ("%Y%j", "2024000", None),
            ("%y%m%d", "681231", date(2068, 12, 31)),
            ("%y%m%d", "690101", date(1969, 1, 1)),
            ("%G-W%V-%u", "2020-W53-5", date(2021, 1, 1)),
            ("%G-W%V-%u", "2020-W53-8", None),
            ("%Y %G-W%V-%u", "2021 2020-W53-5", date(2021, 1, 1)),
            ("%Y-%m", "2024-01", parse_period("2024-01")),
        ],
    )
    def test_date_formats(self, date_format, name, expected):
        assert match_pattern("{date}", name, date_format) == expected

    def test_dates_agree_with_strptime(self):
        for day in EVERY_DAY[::13]:
            for date_format in ("%y%m%d", "%d%b%Y", "%Y%j", "%G-W%V-%u"):
                name = day.strftime(date_format)
                assert match_pattern("{date}", name, date_format) == datetime.strptime(name, date_format).date()  # noqa: DTZ007

    @pytest.mark.parametrize(
        "pattern",
        ["", "data.parquet", "{month}.parquet", "{day}", "{year}-{day}.parquet", "{month}-{day}.parquet",
         "{week}.parquet", "{quarter}", "{year}-Q{quarter}-{day}"],
    )  # fmt: skip
    def test_patterns_that_cannot_tell_days_apart_are_refused(self, pattern):
        with pytest.raises(InvalidInput, match="the same name") as caught:
            pattern_kind(pattern)
        assert "{date}" in str(caught.value.hint)

    @pytest.mark.parametrize("date_format", ["%d", "%m-%d", "%Y-%d", "%G", "%V", "%Y-%V", "%Y %G-W%V", "%%Y", "plain"])
    def test_date_formats_that_cannot_tell_days_apart_are_refused(self, date_format):
        with pytest.raises(InvalidInput, match="the same name"):
            pattern_kind("{date}", date_format)

    @pytest.mark.parametrize(
        ("pattern", "message", "hint"),
        [
            ("{dat}.parquet", "unknown placeholder {dat}", "did you mean date, day?"),
            ("{hour}.parquet", "unknown placeholder {hour}", "known: {date} {year}"),
            ("{}.parquet", "unknown placeholder {}", "known:"),
            ("{0}.parquet", "unknown placeholder {0}", "known:"),
            ("{date.year}", "unknown placeholder {date.year}", "did you mean year, date?"),
            ("{date", "do not match", "{{"),
            ("date}", "do not match", "{{"),
            ("{date:%Y}", "takes no format of its own", "zero-padded"),
            ("{year!r}", "takes no format of its own", "zero-padded"),
            ("{year}-{week}-{month}", "{week} belongs to an ISO year", "{date} only"),
        ],
    )
    def test_other_mistakes_in_patterns(self, pattern, message, hint):
        with pytest.raises(InvalidInput) as caught:
            match_pattern(pattern, "x")
        assert message in caught.value.message
        assert hint in str(caught.value.hint)

    @pytest.mark.parametrize("date_format", ["%Y-%m-%d %H", "%-d.%m.%Y", "%Y-%U", "%x", "%", "%Y-%m-%d%"])
    def test_directives_that_do_not_read_back_are_refused(self, date_format):
        with pytest.raises(InvalidInput, match="in the date format") as caught:
            pattern_kind("{date}", date_format)
        assert "%Y" in str(caught.value.hint)

    def test_a_period_has_no_name_in_a_pattern_of_another_kind(self):
        with pytest.raises(InvalidInput, match="names a month, and 2024-W05 is a week"):
            format_pattern("{year}-{month}.parquet", parse_period("2024-W05"))

    def test_where_days_are_named_a_period_is_called_by_its_first(self):
        assert format_pattern("week_{date}.parquet", parse_period("2025-W01")) == "week_2024-12-30.parquet"
        assert format_pattern("{date}.parquet", parse_period("2024-01-15")) == "2024-01-15.parquet"

    @pytest.mark.parametrize("year", [1968, 2069, 1924])
    def test_two_digits_hold_no_other_century(self, year):
        with pytest.raises(InvalidInput, match="another century") as caught:
            format_pattern("{date}", date(year, 1, 1), "%y%m%d")
        assert "%Y" in str(caught.value.hint)
        assert format_pattern("{date}", date(year, 1, 1), "%y %Y%m%d") == f"{year % 100} {year}0101"

    def test_early_years_are_padded_too(self):
        assert format_pattern("{date} {year}", date(33, 4, 3)) == "0033-04-03 0033"

    def test_whether_the_date_format_matters(self):
        assert has_date("sales_{date}.csv")
        assert not has_date("{year}-{month}-{{date}}.csv")
