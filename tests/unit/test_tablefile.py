from __future__ import annotations

import re
from pathlib import Path

import pytest

from neve.documents import load_document, parse_document
from neve.errors import ConfigError
from neve.model.tablefile import PeriodSpec, SchemaFile, TableFile
from neve.services.specs import name_in_file, spec_from_file

# The YAML of document 000, word for word.
QUICK_START = """\
name: sales
description: Daily sales transactions table

storage:
  type: local
  base_path: data/tables/sales/
  format: parquet

partitioning:
  strategy: flat  # Flat file structure
  pattern: "{date}.parquet"  # e.g., 2024-01-15.parquet
  date_format: "%Y-%m-%d"

compaction:
  enabled: true

  trigger:
    type: manual  # or schedule: "0 3 1 * *" (cron)
    delay_days: 7  # Wait 7 days after month ends

  strategy:
    type: monthly  # Daily files → monthly file
    output_pattern: "{year}-{month}.parquet"
    delete_source: false  # Keep daily files or delete?
    lookback_months: 1

# Optional: Apply dataset cleaning during ingestion
ingestion:
  dataset_config: examples/tables/sales/configs/sales_dataset.yaml
"""
STORAGE = """\
storage:
  type: local  # or s3 (future)
  base_path: data/tables/sales/
  format: parquet  # or csv
"""
FLAT = """\
partitioning:
  strategy: flat  # Flat file structure (2024-01-01.parquet)
  pattern: "{date}.parquet"  # Filename pattern
  date_format: "%Y-%m-%d"  # Python datetime format
"""
HIVE = """\
partitioning:
  strategy: hive  # Hive-style partitioning
  pattern: "year={year}/month={month}/day={day}/data.parquet"
"""
COMPACTION = """\
compaction:
  enabled: true

  trigger:
    type: manual  # manual or schedule
    schedule: "0 3 1 * *"  # Cron expression (if schedule type)
    delay_days: 7  # Wait N days after period ends before compacting

  strategy:
    type: monthly  # daily → monthly
    output_pattern: "{year}-{month}.parquet"
    delete_source: false  # Delete daily files after compaction?
    lookback_months: 1  # Only compact recent months
"""
INGESTION = """\
ingestion:
  dataset_config: configs/dataset_clean.yaml
"""
SCHEDULED = """\
compaction:
  trigger:
    type: schedule
    schedule: "0 3 1 * *"  # 3 AM on 1st of each month
    delay_days: 7  # Wait 7 days into new month before compacting
"""
WEEKLY = """\
compaction:
  strategy:
    type: weekly  # Daily files → weekly files
    output_pattern: "{year}-W{week}.parquet"
"""
RECENT_DETAIL = """\
compaction:
  trigger:
    delay_days: 30  # Only compact data older than 30 days
  strategy:
    delete_source: true  # Delete daily files after compaction
"""
SECTIONS = [STORAGE, FLAT, HIVE, COMPACTION, INGESTION, SCHEDULED, WEEKLY, RECENT_DETAIL]
MONTHLY = PeriodSpec(outputs={"month": "{year}-{month}.parquet"})
DIRECTORY = "storage: {format: parquet, base_path: d}\n"


@pytest.fixture
def read(tmp_path: Path):
    def read(content: str) -> TableFile:
        path = tmp_path / "t.yaml"
        path.write_text(content if "name:" in content else f"name: t\n{content}", encoding="utf-8")
        return parse_document(load_document(path), TableFile)

    return read


@pytest.fixture
def refusal(read, tmp_path: Path):
    def refusal(content: str) -> str:
        with pytest.raises(ConfigError) as caught:
            read(content)
        return caught.value.message.replace(f"{tmp_path}/", "")

    return refusal


def with_section(section: str) -> str:
    """The first file of the document, one section replaced."""
    key = section.partition(":")[0]
    return re.sub(rf"^{key}:\n(?:(?:  .*)?\n)*", lambda _: section, QUICK_START, flags=re.MULTILINE)


class TestTheDocument:
    def test_quick_start(self, read):
        table = read(QUICK_START)
        assert (table.name, table.description) == ("sales", "Daily sales transactions table")
        assert table.storage.model_dump() == {"type": "local", "base_path": "data/tables/sales/", "format": "parquet"}
        assert (table.partitioning.strategy, table.day_pattern, table.date_format) == (
            "flat",
            "{date}.parquet",
            "%Y-%m-%d",
        )
        assert table.ingestion.dataset_config == "examples/tables/sales/configs/sales_dataset.yaml"
        assert table.columns == []
        assert table.period_spec() == PeriodSpec(
            outputs={"month": "{year}-{month}.parquet"}, delay_days=7, lookback_months=1
        )

    @pytest.mark.parametrize("section", SECTIONS)
    def test_each_section_alone_and_in_the_first_file(self, read, section):
        read(section)
        content = with_section(section)
        assert section in content
        assert read(content).name == "sales"

    def test_hive(self, read):
        table = read(STORAGE + HIVE)
        assert table.partitioning.strategy == "hive"
        assert table.day_pattern == "year={year}/month={month}/day={day}/data.parquet"

    def test_a_schedule_beside_manual_rests(self, read):
        table = read(COMPACTION)
        assert table.compaction.trigger.schedule == "0 3 1 * *"
        assert table.period_spec().schedule is None

    def test_scheduled(self, read):
        spec = read(SCHEDULED).period_spec()
        assert (spec.schedule, spec.delay_days) == ("0 3 1 * *", 7)

    def test_a_schedule_alone_is_a_schedule(self, read):
        """The first file's remark: `type: manual  # or schedule: "0 3 1 * *"`."""
        table = read(QUICK_START.replace('type: manual  # or schedule: "0 3 1 * *" (cron)', 'schedule: "0 3 1 * *"'))
        assert table.compaction.trigger.type == "schedule"
        assert table.period_spec().schedule == "0 3 1 * *"

    def test_weekly(self, read):
        assert read(WEEKLY).period_spec() == PeriodSpec(outputs={"week": "{year}-W{week}.parquet"})

    def test_recent_detail(self, read):
        spec = read(RECENT_DETAIL).period_spec()
        assert (spec.outputs, spec.delay_days, spec.delete_source) == (MONTHLY.outputs, 30, True)


class TestDefaults:
    def test_a_name_is_enough(self, read):
        table = read("")
        assert table.storage.model_dump() == {"type": "local", "base_path": None, "format": "iceberg"}
        assert table.period_spec() == MONTHLY
        assert (table.ingestion.missing_columns, table.ingestion.max_rejected) == ("null", None)
        assert table.schema_changes == "strict"

    @pytest.mark.parametrize(
        ("strategy", "outputs"),
        [
            ("weekly", {"week": "{year}-W{week}.csv"}),
            ("monthly", {"month": "{year}-{month}.csv"}),
            ("quarterly", {"quarter": "{year}-Q{quarter}.csv"}),
            ("yearly", {"year": "{year}.csv"}),
            ("hierarchical", {"month": "{year}-{month}.csv", "year": "{year}.csv"}),
        ],
    )
    def test_each_strategy_names_its_files_after_the_format(self, read, strategy, outputs):
        table = read(f"storage: {{format: csv, base_path: d}}\ncompaction: {{strategy: {{type: {strategy}}}}}\n")
        assert table.day_pattern == "{date}.csv"
        assert table.period_spec().outputs == outputs

    def test_hive_without_a_pattern(self, read):
        table = read(f"{DIRECTORY}partitioning: {{strategy: hive}}\n")
        assert table.day_pattern == "year={year}/month={month}/day={day}/data.parquet"

    def test_strategy_follows_from_the_pattern(self, read):
        assert read('partitioning: {pattern: "day={date}/x.parquet"}').partitioning.strategy == "hive"
        assert read('partitioning: {pattern: "day={date}.parquet"}').partitioning.strategy == "flat"

    def test_storage_type_follows_from_the_path(self, read):
        assert read("storage: {base_path: 's3://bucket/x'}").storage.type == "s3"
        assert read("storage: {base_path: s3/x}").storage.type == "local"

    def test_a_hierarchy_names_both_levels(self, read):
        spec = read(
            "compaction: {strategy: {type: hierarchical, output_pattern: 'm{year}-{month}.parquet',"
            " yearly_output_pattern: 'y{year}.parquet'}}"
        ).period_spec()
        assert spec.outputs == {"month": "m{year}-{month}.parquet", "year": "y{year}.parquet"}

    def test_date_in_an_output_is_the_first_day(self, read):
        spec = read(
            "partitioning: {pattern: 'day-{date}.parquet', date_format: '%Y%m%d'}\n"
            "compaction: {strategy: {type: weekly, output_pattern: 'week-{date}.parquet'}}"
        ).period_spec()
        assert (spec.outputs, spec.date_format) == ({"week": "week-{date}.parquet"}, "%Y%m%d")

    @pytest.mark.parametrize(
        ("content", "expected"),
        [
            ("missing_columns: null", ("null", None)),
            ("missing_columns: refuse, max_rejected: 10", ("refuse", "10")),
            ("max_rejected: 2.5%", ("null", "2.5%")),
        ],
    )
    def test_ingestion(self, read, content, expected):
        ingestion = read(f"ingestion: {{{content}}}").ingestion
        assert (ingestion.missing_columns, ingestion.max_rejected) == expected

    def test_schema_evolves_when_told(self, read):
        assert read("schema: evolve").schema_changes == "evolve"

    @pytest.mark.parametrize("content", [QUICK_START, STORAGE + HIVE, SCHEDULED, "schema: evolve\ncolumns: {a: int}\n"])
    def test_what_is_stored_reads_back(self, read, content):
        """The registry keeps a table's file as JSON."""
        table = read(content)
        for unset in (True, False):
            assert TableFile.model_validate(table.model_dump(mode="json", by_alias=True, exclude_unset=unset)) == table

    def test_keys_that_an_iceberg_table_cannot_honour(self, read):
        assert read(QUICK_START).directory_only_keys() == ["partitioning.pattern", "compaction.strategy.output_pattern"]
        assert read("partitioning: {strategy: hive}").directory_only_keys() == ["partitioning.strategy"]
        assert read(SCHEDULED + INGESTION).directory_only_keys() == []


class TestRefusals:
    @pytest.mark.parametrize(
        ("content", "expected"),
        [
            # unknown words
            ("storge: {}", "t.yaml:2 storge: unknown key; did you mean storage?"),
            ("storage: {bucket: x}", "storage.bucket: unknown key; known keys: type, base_path, format"),
            ("storage: {format: orc}", "storage.format: must be iceberg, parquet or csv, not 'orc'"),
            ("storage: {type: gcs}", "storage.type: must be local or s3, not 'gcs'"),
            ("partitioning: {strategy: hourly}", "partitioning.strategy: must be flat or hive"),
            ("compaction: {trigger: {cron: x}}", "compaction.trigger.cron: unknown key"),
            ("compaction: {trigger: {type: auto}}", "compaction.trigger.type: must be manual or schedule"),
            ("compaction: {strategy: {type: daily}}", "must be weekly, monthly, quarterly, yearly or hierarchical"),
            ("compaction: {strategy: {expected: all}}", "compaction.strategy.expected: must be any or complete"),
            ("compaction: {enabled: maybe}", "compaction.enabled: must be true or false"),
            ("compaction: {strategy: {delete_source: 3}}", "compaction.strategy.delete_source: must be true or false"),
            ("ingestion: {dataset: x}", "ingestion.dataset: unknown key"),
            ("ingestion: {missing_columns: drop}", "ingestion.missing_columns: must be null or refuse"),
            (
                "ingestion: {max_rejected: some}",
                "ingestion.max_rejected: must be a number of rows or a share such as 0.5%, not 'some'",
            ),
            ("ingestion: {max_rejected: 101%}", "ingestion.max_rejected: must be a number of rows or a share"),
            ("schema: loose", "t.yaml:2 schema: must be strict or evolve, not 'loose'"),
            ("schema_changes: evolve", "schema_changes: unknown key"),
            # numbers
            ("compaction: {trigger: {delay_days: -1}}", "compaction.trigger.delay_days: must be at least 0, not -1"),
            ("compaction: {trigger: {delay_days: 99999}}", "compaction.trigger.delay_days: must be at most 3660"),
            ("compaction: {strategy: {lookback_months: 0}}", "lookback_months: must be at least 1, not 0"),
            # storage
            ("storage: {format: parquet}", "t.yaml:2 storage.base_path: a parquet directory needs storage.base_path"),
            ("storage: {type: s3, format: csv}", "storage.base_path: a csv directory needs storage.base_path"),
            ("storage: {type: s3, base_path: data}", "storage.base_path: storage of type s3 needs s3://bucket/folder"),
            ("storage: {type: local, base_path: 's3://b/x'}", "storage of type local needs a plain path"),
            ("storage: {base_path: 'gs://b/x'}", "storage of type local needs a plain path, not 'gs://b/x'"),
            ("storage: {base_path: ''}", "storage.base_path: must not be empty"),
            # triggers
            ("compaction: {trigger: {type: schedule}}", "compaction.trigger.schedule: type schedule needs a cron"),
            ("compaction: {trigger: {schedule: daily}}", "compaction.trigger.schedule: must be five cron fields"),
            ("compaction: {trigger: {schedule: '@daily'}}", "compaction.trigger.schedule: must be five cron fields"),
            (
                "compaction: {trigger: {schedule: '0 0 3 1 * *'}}",
                "compaction.trigger.schedule: must be five cron fields",
            ),
            ("compaction: {trigger: {schedule: '61 3 1 * *'}}", "schedule: not a cron expression: bad minute"),
            ("compaction: {trigger: {schedule: '0 3 31 2 *'}}", "schedule: not a cron expression: bad day-of-month"),
            ("compaction: {trigger: {schedule: '0 3 */20 * 1L'}}", "schedule: this time never comes"),
            ("compaction: {trigger: {type: manual, schedule: nonsense}}", "schedule: must be five cron fields"),
        ],
    )
    def test_each_key_is_honoured_or_refused(self, refusal, content, expected):
        assert expected in refusal(content)

    @pytest.mark.parametrize(
        ("partitioning", "expected"),
        [
            ("pattern: '{dat}.parquet'", "partitioning.pattern: unknown placeholder {dat}"),
            ("pattern: 'data.parquet'", "pattern: the pattern 'data.parquet' gives several days or periods"),
            ("pattern: '{year}-{month}.parquet'", "pattern: '{year}-{month}.parquet' gives several days one"),
            ("pattern: '{date}.parquet', date_format: '%Y-%m'", "partitioning.pattern: '{date}.parquet' gives several"),
            ("pattern: '{date}.parquet', date_format: '%H'", "unknown '%H' in the date format"),
            ("strategy: flat, pattern: 'year={year}/{date}.parquet'", "flat has no folders; set strategy: hive"),
            ("pattern: '{year}/{date}.parquet'", "partitioning.pattern: strategy flat has no folders"),
            ("pattern: '{date}.parquet', date_format: '%Y/%m/%d'", "strategy flat has no folders"),
            ("strategy: hive, pattern: '{date}.parquet'", "pattern: strategy hive needs folders of key=value"),
            ("strategy: hive, pattern: '{year}/day={date}/x.parquet'", "strategy hive needs folders of key=value"),
            ("pattern: '../{date}.parquet'", "partitioning.pattern: '../2024-01-31.parquet' does not stay below"),
            ("pattern: '/{date}.parquet'", "does not stay below the table's folder"),
            ("pattern: 'a=1//{date}.parquet'", "does not stay below the table's folder"),
            ("pattern: '_{date}.parquet'", "readers pass over names like '_2024-01-31.parquet'"),
            ("pattern: '.tmp={year}/{date}.parquet'", "readers pass over names like '.tmp=2024'"),
            ("pattern: '{date}*.parquet'", "no file should be called '2024-01-31*.parquet', because of '*'"),
            ("pattern: '{date}.parquet', date_format: '%d:%m:%Y'", "because of ':'"),
            ("pattern: \"{date}\\n.parquet\"", "because of '\\n'"),
            ("pattern: '{date}.csv'", "t.yaml:3 partitioning: the name '{date}.csv' must end with .parquet"),
            ("strategy: hive, date_format: '%Y'", "partitioning: date_format is for {date}, which no pattern here has"),
        ],
    )  # fmt: skip
    def test_day_patterns(self, refusal, partitioning, expected):
        assert expected in refusal(f"{DIRECTORY}partitioning: {{{partitioning}}}\n")

    @pytest.mark.parametrize(
        ("strategy", "expected"),
        [
            ("type: weekly, output_pattern: '{year}-{month}.parquet'",
             "t.yaml:3 compaction.strategy.output_pattern: '{year}-{month}.parquet' names a month,"
             " but strategy weekly makes a week: {year}-W{week}"),
            ("type: monthly, output_pattern: '{year}-W{week}.parquet'", "names a week, but strategy monthly"),
            ("type: monthly, output_pattern: '{year}.parquet'", "names a year, but strategy monthly"),
            ("type: yearly, output_pattern: '{year}-{month}.parquet'", "names a month, but strategy yearly"),
            ("type: hierarchical, output_pattern: '{year}.parquet'", "names a year, but strategy hierarchical"),
            ("type: monthly, output_pattern: '{year}-{month}-{day}x.parquet'", "names a day, but strategy monthly"),
            ("yearly_output_pattern: '{year}.parquet'", "yearly_output_pattern: only strategy hierarchical has it"),
            ("output_pattern: '{month}.parquet'", "output_pattern: the pattern '{month}.parquet' gives several"),
            ("output_pattern: '{year}-{moth}.parquet'", "unknown placeholder {moth}"),
            ("output_pattern: '../{year}-{month}.parquet'", "does not stay below"),
            ("output_pattern: '_sources/{year}-{month}.parquet'", "readers pass over names like '_sources'"),
            ("output_pattern: '{year}-{month}.csv'", "the name '{year}-{month}.csv' must end with .parquet"),
            ("output_pattern: '{date}.parquet'", "'1990-01-01.parquet' could be a name of '{date}.parquet' and of"),
            ("output_pattern: '{year}-{month}-15.parquet'", "'1990-01-15.parquet' could be a name of"),
            ("type: hierarchical, yearly_output_pattern: '{year}-01.parquet'", "'1990-01.parquet' could be a name of"),
        ],
    )  # fmt: skip
    def test_output_patterns(self, refusal, strategy, expected):
        assert expected in refusal(f"{DIRECTORY}compaction: {{strategy: {{{strategy}}}}}\n")

    def test_the_date_format_counts_in_outputs_too(self, refusal):
        content = f"{DIRECTORY}partitioning: {{pattern: 'd{{year}}{{month}}{{day}}.parquet', date_format: '%Y'}}\n"
        assert "names a year, but strategy monthly" in refusal(
            f"{content}compaction: {{strategy: {{output_pattern: '{{date}}.parquet'}}}}\n"
        )

    def test_names_that_meet_only_in_some_years_are_found(self, refusal):
        """Week 10 of 2010 would be 201010.parquet: also the 10th of October 2020 by %y%m%d."""
        content = f"{DIRECTORY}partitioning: {{date_format: '%y%m%d'}}\n"
        content += "compaction: {strategy: {type: weekly, output_pattern: '{year}{week}.parquet'}}\n"
        assert "could be a name of '{year}{week}.parquet' and of '{date}.parquet'" in refusal(content)

    @pytest.mark.parametrize("key", ["partition_by: a", "sort_by: a", "properties: {a: b}"])
    def test_what_is_for_iceberg_tables_alone(self, refusal, key):
        assert f"t.yaml:3 {key.partition(':')[0]}: is for Iceberg tables" in refusal(f"{DIRECTORY}{key}\n")

    def test_a_schema_alone_still_needs_columns(self, tmp_path):
        path = tmp_path / "s.yaml"
        path.write_text("columns: []\n")
        with pytest.raises(ConfigError, match="columns"):
            parse_document(load_document(path), SchemaFile)


class TestCreation:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return tmp_path / "t.yaml"

    def test_a_file_of_columns_is_a_table_as_before(self, path):
        path.write_text("name: t\ncolumns: {id: bigint}\npartition_by: id\nproperties: {a: 1}\n")
        spec = spec_from_file(path, root=path.parent, warehouse="/w")
        assert [column.name for column in spec.columns] == ["id"]
        assert spec.properties == {"a": "1"}

    def test_what_an_iceberg_table_cannot_honour_is_refused(self, path):
        path.write_text(f"name: t\ncolumns: {{id: bigint}}\n{HIVE}")
        with pytest.raises(ConfigError, match=r"partitioning\.strategy, partitioning\.pattern"):
            spec_from_file(path, root=path.parent, warehouse="/w")

    def test_the_file_of_the_document_names_its_table(self, path):
        path.write_text(QUICK_START)
        assert name_in_file(path).short == "sales"
