from __future__ import annotations

import itertools
import json
import re
import traceback
from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from neve.config import (
    NEVE_YAML,
    PROFILES,
    LoadedSettings,
    Settings,
    find_lake,
    load_settings,
    mask_url,
    render_settings,
)
from neve.config.keys import setting_keys
from neve.errors import ConfigError

SECRET = "hunter2"


@pytest.fixture
def load(tmp_path):
    def load(text: str = "", **layers) -> LoadedSettings:
        (tmp_path / "neve.yaml").write_text(text, encoding="utf-8")
        return load_settings(tmp_path, **{"flags": {}, "env": {}, **layers})

    return load


@pytest.fixture
def refusal(load, tmp_path):
    def refusal(text: str = "", **layers) -> str:
        with pytest.raises(ConfigError) as caught:
            load(text, **layers)
        return caught.value.message.replace(f"{tmp_path.resolve()}/", "")

    return refusal


def shown(loaded: LoadedSettings) -> dict[str, str]:
    return {row.key: row.value for row in render_settings(loaded)}


class TestDefaults:
    def test_a_folder_without_a_file_has_the_defaults(self, tmp_path):
        loaded = load_settings(tmp_path, flags={}, env={"PATH": "/bin", "NEVE_LAKE": "/elsewhere"})
        assert loaded.settings == Settings()
        assert set(loaded.sources.values()) == {"default", "profile dev"}

    @pytest.mark.parametrize(("profile", "files", "writes"), [("dev", 3, 5), ("staging", 15, 75), ("prod", 20, 100)])
    def test_profiles_have_the_values_of_the_document(self, load, profile, files, writes):
        loaded = load(profile=profile)
        compaction = loaded.settings.compaction
        assert (compaction.min_files_to_compact, compaction.opportunistic_check_interval) == (files, writes)
        assert (compaction.small_file_threshold_mb, compaction.max_files_per_compaction) == (64, 100)
        assert loaded.sources["compaction.min_files_to_compact"] == f"profile {profile}"
        assert loaded.sources["profile"] == "flag --profile"

    def test_settings_are_frozen(self):
        with pytest.raises(ValidationError, match="frozen"):
            Settings().profile = "prod"  # type: ignore[misc]


KEY = "compaction.min_files_to_compact"
LAYERS = {
    "profile prod": (20, {}),
    "neve.yaml:3": (31, {"file": True}),
    "neve.yaml:7 (profiles.prod)": (32, {"section": True}),
    "env NEVE_COMPACTION__MIN_FILES_TO_COMPACT": (33, {"env": True}),
    "flag --compaction.min_files_to_compact": (34, {"flags": True}),
}


class TestPrecedence:
    @pytest.mark.parametrize(("weaker", "stronger"), list(itertools.combinations(LAYERS, 2)))
    def test_the_stronger_of_two_layers_wins(self, load, weaker, stronger):
        given = LAYERS[weaker][1] | LAYERS[stronger][1]
        lines = ["profile: prod", "compaction:", "  min_files_to_compact: 31" if "file" in given else "  # nothing"]
        lines += (
            ["profiles:", "  prod:", "    compaction:", "      min_files_to_compact: 32"] if "section" in given else []
        )
        loaded = load(
            "\n".join(lines),
            env={"NEVE_COMPACTION__MIN_FILES_TO_COMPACT": "33"} if "env" in given else {},
            flags={KEY: "34"} if "flags" in given else {},
        )
        assert loaded.settings.compaction.min_files_to_compact == LAYERS[stronger][0]
        assert loaded.sources[KEY] == stronger

    def test_every_layer_beats_the_default(self, load):
        assert load().sources["spark.master"] == "default"
        assert load("spark: {master: a}").sources["spark.master"] == "neve.yaml:1"
        assert load("profiles: {dev: {spark: {master: a}}}").sources["spark.master"] == "neve.yaml:1 (profiles.dev)"
        assert load(env={"NEVE_SPARK__MASTER": "a"}).sources["spark.master"] == "env NEVE_SPARK__MASTER"
        assert load(flags={"spark.master": "a"}).sources["spark.master"] == "flag --spark.master"

    def test_the_profile_itself_has_layers(self, load):
        text = "profile: staging\n"
        assert load(text).settings.profile == "staging"
        assert load(text, env={"NEVE_PROFILE": "prod"}).settings.profile == "prod"
        assert load(text, env={"NEVE_PROFILE": "prod"}).sources[KEY] == "profile prod"
        loaded = load(text, env={"NEVE_PROFILE": "prod"}, profile="dev")
        assert (loaded.settings.profile, loaded.sources["profile"]) == ("dev", "flag --profile")
        assert load(text, flags={"profile": "dev"}).settings.profile == "dev"

    def test_only_the_chosen_profile_applies(self, load):
        text = "profiles:\n  dev: {warehouse: d}\n  prod: {warehouse: p}\n"
        assert [load(text, profile=name).settings.warehouse for name in PROFILES] == ["d", "warehouse", "p"]

    def test_false_zero_and_empty_are_overrides(self, load):
        text = (
            "compaction: {enabled: true}\ncommit: {retries: 9}\ns3: {region: eu-west-1, endpoint: 'http://a'}\n"
            "spark: {driver_memory: 4g, packages: ['a:b:1'], conf: {x: '1'}}\n"
        )
        section = (
            "profiles: {dev: {compaction: {enabled: false}, commit: {retries: 0}, s3: {region: '', endpoint: null}, "
            "spark: {driver_memory: '', packages: [], conf: {}}}}"
        )
        env = {
            "NEVE_COMPACTION__ENABLED": "false",
            "NEVE_COMMIT__RETRIES": "0",
            "NEVE_S3__REGION": "",
            "NEVE_S3__ENDPOINT": "",
            "NEVE_SPARK__DRIVER_MEMORY": "",
            "NEVE_SPARK__PACKAGES": "",
            "NEVE_SPARK__CONF": "",
        }
        for loaded in (load(text + section), load(text, env=env)):
            settings = loaded.settings
            assert settings.compaction.enabled is False
            assert settings.commit.retries == 0
            assert (settings.s3.region, settings.s3.endpoint) == (None, None)
            assert (settings.spark.driver_memory, settings.spark.packages, settings.spark.conf) == (None, (), {})

    def test_an_empty_override_has_its_source(self, load):
        loaded = load("spark:\n  packages: []\n  conf: {}\n", env={"NEVE_S3__REGION": ""})
        keys = ("spark.packages", "spark.conf", "s3.region")
        assert [loaded.sources[key] for key in keys] == ["neve.yaml:2", "neve.yaml:3", "env NEVE_S3__REGION"]

    def test_mappings_merge_key_by_key(self, load):
        loaded = load(
            "spark:\n  conf:\n    a: 1\n    b: 1\n    c: 1\nprofiles: {dev: {spark: {conf: {b: 2}}}}\n",
            env={"NEVE_SPARK__CONF__c": "3", "NEVE_SPARK__CONF": "d=4"},
        )
        assert loaded.settings.spark.conf == {"a": "1", "b": "2", "c": "3", "d": "4"}
        assert {key: source for key, source in loaded.sources.items() if key.startswith("spark.conf")} == {
            "spark.conf.a": "neve.yaml:3",
            "spark.conf.b": "neve.yaml:6 (profiles.dev)",
            "spark.conf.c": "env NEVE_SPARK__CONF__c",
            "spark.conf.d": "env NEVE_SPARK__CONF",
        }

    def test_an_empty_mapping_clears_and_others_add_to_it(self, load):
        loaded = load("spark: {conf: {a: 1}}\n", env={"NEVE_SPARK__CONF": "{}", "NEVE_SPARK__CONF__b": "2"})
        assert loaded.settings.spark.conf == {"b": "2"}
        assert (
            load("spark: {conf: {a: 1}}\n", env={"NEVE_SPARK__CONF": "{}"}).sources["spark.conf"]
            == "env NEVE_SPARK__CONF"
        )

    def test_every_setting_has_one_source(self, load):
        loaded = load("spark: {conf: {a: 1}}\n")
        assert [row.key for row in render_settings(loaded)] == list(loaded.sources)


class TestFile:
    def test_unknown_keys_name_line_and_nearest(self, refusal):
        text = "spark:\n  mastr: local\ncatalogue:\n  type: sqlite\nprofiles:\n  prod:\n    wite: {}\n  prd: {}\n"
        assert refusal(text).splitlines() == [
            "neve.yaml:2 spark.mastr: unknown key; did you mean master?",
            "neve.yaml:7 profiles.prod.wite: unknown key; did you mean write?",
            "neve.yaml:8 profiles.prd: unknown key; did you mean prod?",
            "neve.yaml:3 catalogue: unknown key; did you mean catalog?",
        ]

    def test_a_profile_cannot_choose_a_profile(self, refusal):
        assert "neve.yaml:1 profiles.prod.profile: unknown key" in refusal("profiles: {prod: {profile: dev}}")

    @pytest.mark.parametrize(
        ("line", "expected"),
        [
            ("profile: prd", "profile: must be dev, staging or prod, not 'prd'; did you mean prod?"),
            ("catalog: {type: postgres}", "catalog.type: must be sqlite, postgresql, rest, glue or hive, "
             "not 'postgres'; did you mean postgresql?"),
            ("write: {target_file_size_mb: 0}", "write.target_file_size_mb: must be greater than 0, not 0"),
            ("write: {target_file_size_mb: big}", "write.target_file_size_mb: must be a whole number, not 'big'"),
            ("commit: {retries: -1}", "commit.retries: must be at least 0, not -1"),
            ("commit: {retries: true}", "commit.retries: must be a whole number, not 'true'"),
            ("spark: {shuffle_partitions: true}", "spark.shuffle_partitions: must be a whole number, not 'true'"),
            ("commit: {retries:}", "commit.retries: needs a value"),
            ("compaction: {enabled: maybe}", "compaction.enabled: must be true or false, not 'maybe'"),
            ("trash: {keep: 7}", "trash.keep: not a duration: write numbers and units, larger first, such as 7d, 2 h, "
             "90 minutes or 1h30m"),
            ("spark: {driver_memory: 4 gigs}", "spark.driver_memory: must be a whole number and a unit as Spark writes "
             "them, such as 4g or 512m"),
            ("spark: {packages: ['a:b']}", "spark.packages[0]: must be Maven coordinates, as group:artifact:version"),
            ("spark: {shuffle_partitions: 0}", "spark.shuffle_partitions: must be greater than 0, not 0"),
            ("spark: local", "spark: must be a mapping of 'key: value' lines, not 'local'"),
            ("spark: {conf: [a]}", "spark.conf: must be a mapping of 'key: value' lines, not a list"),
            ("spark: {conf: {a: }}", "spark.conf.a: needs a value"),
            ("warehouse: gs://bucket", "warehouse: must be a path, or s3://bucket/prefix"),
            ("warehouse: s3:///x", "warehouse: must be a path, or s3://bucket/prefix"),
            ("warehouse: ''", "warehouse: must not be empty"),
            ("state: {uri: 'mysql://u:hunter2@h/d'}", "state.uri: must start with postgresql:// or sqlite:///"),
            ("s3: {endpoint: localhost}", "s3.endpoint: must start with http:// or https://"),
        ],
    )  # fmt: skip
    def test_bad_values_have_line_key_and_sentence(self, refusal, line, expected):
        assert refusal(f"# a lake\n{line}\n") == f"neve.yaml:2 {expected}"

    @pytest.mark.parametrize(
        ("line", "expected"),
        [
            ("catalog: {type: postgresql}", "catalog.type: a postgresql catalog needs catalog.uri"),
            ("catalog: {type: rest}", "catalog.type: a rest catalog needs catalog.uri"),
            ("catalog: {type: hive}", "catalog.type: a hive catalog needs catalog.uri"),
            (
                "catalog: {uri: 'postgresql://h/d'}",
                "catalog.uri: the uri of a sqlite catalog must start with sqlite:///",
            ),
            (
                "catalog: {type: rest, uri: 'thrift://h'}",
                "catalog.uri: the uri of a rest catalog must start with http://",
            ),
            ("s3: {access_key_id: hunter2}", "s3.access_key_id: needs s3.secret_access_key too"),
            ("s3: {secret_access_key: hunter2}", "s3.secret_access_key: needs s3.access_key_id too"),
            ("s3: {session_token: hunter2}", "s3.session_token: needs s3.access_key_id and s3.secret_access_key too"),
            ("commit: {min_wait_ms: 9, max_wait_ms: 5}", "commit.max_wait_ms: must be at least commit.min_wait_ms, 9"),
            ("compaction: {max_files_per_compaction: 2}", "compaction.max_files_per_compaction: must be at least"),
            ("spark: {jars: lib, packages: ['a:b:1']}", "spark.jars: nothing is fetched when this is set"),
        ],
    )
    def test_values_must_go_together(self, refusal, line, expected):
        message = refusal(f"# a lake\n{line}\n")
        assert message.startswith(f"neve.yaml:2 {expected}")
        assert SECRET not in message

    @pytest.mark.parametrize(
        "text",
        [
            "catalog: {type: glue}",
            "catalog: {type: glue, uri: 'https://glue.example'}",
            "catalog: {type: hive, uri: 'thrift://h:9083'}",
            "warehouse: s3://bucket/lake\ncatalog: {type: sqlite}",
            "s3: {access_key_id: a, secret_access_key: b, session_token: c}",
        ],
    )
    def test_what_goes_together_is_accepted(self, load, text):
        assert load(text).settings

    def test_another_layer_may_complete_a_section(self, load, refusal):
        text = "profiles: {prod: {catalog: {type: postgresql}}}\n"
        assert load(text, profile="dev").settings.catalog.type == "sqlite"
        assert (
            load(text, profile="prod", env={"NEVE_CATALOG__URI": "postgresql://h/d"}).catalog_uri == "postgresql://h/d"
        )
        assert refusal(text, profile="prod").startswith(
            "neve.yaml:1 (profiles.prod) catalog.type: a postgresql catalog"
        )

    def test_bad_yaml_has_its_position(self, refusal):
        assert refusal("spark:\n  master: 'x\n").startswith("neve.yaml:3:1: ")
        assert "neve.yaml:2:1: the key 'profile' is written twice" in refusal("profile: dev\nprofile: prod\n")

    def test_text_keeps_the_form_it_was_written_in(self, load):
        conf = load("spark: {conf: {a: true, b: 1.10, c: 8, d: no, e: 2024-01-01, f: 0.5}}").settings.spark.conf
        assert conf == {"a": "true", "b": "1.10", "c": "8", "d": "no", "e": "2024-01-01", "f": "0.5"}

    def test_durations(self, load):
        assert load("trash: {keep: 1h30m}").settings.trash.keep == timedelta(minutes=90)
        assert load("trash: {keep: 0}").settings.trash.keep == timedelta(0)
        assert shown(load("trash: {keep: 90 minutes}"))["trash.keep"] == "1h30m"

    def test_bare_headers_change_nothing(self, load):
        text = "catalog:\nspark:\n  conf:\n  packages:\nprofiles:\n  dev:\n  prod:\n    spark:\n"
        assert load(text).settings == Settings()

    def test_a_folder_named_like_the_file_is_refused(self, tmp_path):
        (tmp_path / "neve.yaml").mkdir()
        with pytest.raises(ConfigError, match="cannot be read"):
            load_settings(tmp_path, flags={}, env={})


class TestEnvironmentAndFlags:
    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            ("g:a:1,g:b:2", ("g:a:1", "g:b:2")),
            (" g:a:1 , ", ("g:a:1",)),
            ('["g:a:1", "g:b:2"]', ("g:a:1", "g:b:2")),
            ("[]", ()),
        ],
    )
    def test_lists(self, load, value, expected):
        assert load(env={"NEVE_SPARK__PACKAGES": value}).settings.spark.packages == expected
        assert load(flags={"spark.packages": value}).settings.spark.packages == expected

    @pytest.mark.parametrize(
        "value",
        ["spark.a=1,spark.b=x=y", '{"spark.a": 1, "spark.b": "x=y"}', ' {"spark.a": "1", "spark.b": "x=y"}'],
    )
    def test_mappings(self, load, value):
        assert load(env={"NEVE_SPARK__CONF": value}).settings.spark.conf == {"spark.a": "1", "spark.b": "x=y"}
        assert load(flags={"spark.conf": value}).settings.spark.conf == {"spark.a": "1", "spark.b": "x=y"}

    def test_one_key_of_a_mapping(self, load):
        by_env = load(env={"NEVE_SPARK__CONF__spark.sql.shuffle.partitions": "8"})
        by_flag = load(flags={"spark.conf.spark.sql.shuffle.partitions": "8"})
        assert by_env.settings.spark.conf == by_flag.settings.spark.conf == {"spark.sql.shuffle.partitions": "8"}
        assert by_env.sources["spark.conf.spark.sql.shuffle.partitions"].startswith("env NEVE_SPARK__CONF__spark.sql")
        assert load(env={"NEVE_CATALOG__PROPERTIES__a__b": "[1]"}).settings.catalog.properties == {"a__b": "[1]"}

    def test_every_setting_has_a_variable(self, load):
        env = {key.env_name: "" if key.kind != "value" else shown(load())[key.name] for key in setting_keys()}
        assert load(env=env).settings == Settings()

    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("NEVE_SPARK__MASTR", "no such setting; did you mean NEVE_SPARK__MASTER"),
            ("NEVE_SPARK_MASTER", "no such setting; did you mean NEVE_SPARK__MASTER"),
            ("NEVE_spark__master", "no such setting; did you mean NEVE_SPARK__MASTER"),
            ("NEVE_LAEK", "no such setting; did you mean NEVE_LAKE"),
            ("NEVE_SPARK__CONF__", "no such setting; did you mean NEVE_SPARK__CONF"),
            ("NEVE_TRASH", "this is a section; set NEVE_TRASH__KEEP"),
            ("NEVE_QQQQQQQQQQQQQQQQ", "no such setting; `neve config show` lists them all"),
        ],
    )
    def test_unknown_variables_name_the_nearest(self, refusal, name, expected):
        assert refusal(env={name: SECRET}).startswith(f"env {name}: {expected}")

    def test_unknown_flags_name_the_nearest(self, refusal):
        assert refusal(flags={"spark.mastr": "x"}).startswith(
            "flag --spark.mastr: no such setting; did you mean spark.master"
        )

    @pytest.mark.parametrize(
        ("name", "value", "expected"),
        [
            ("NEVE_SPARK__CONF", "hunter2", "write key=value pairs separated by commas, or a JSON object"),
            ("NEVE_SPARK__CONF", "=hunter2", "write key=value pairs separated by commas, or a JSON object"),
            ("NEVE_SPARK__CONF", '{"hunter2": ', "not a valid JSON object"),
            ("NEVE_SPARK__PACKAGES", '["hunter2"', "not a valid JSON array"),
        ],
    )
    def test_what_cannot_be_read_is_said_without_the_text(self, load, name, value, expected):
        with pytest.raises(ConfigError) as caught:
            load(env={name: value})
        assert caught.value.message == f"env {name}: {expected}"
        assert SECRET not in "".join(traceback.format_exception(caught.value))

    def test_bad_values_name_the_variable_or_flag(self, refusal):
        assert refusal(env={"NEVE_COMMIT__RETRIES": "x"}) == (
            "env NEVE_COMMIT__RETRIES commit.retries: must be a whole number, not 'x'"
        )
        assert refusal(env={"NEVE_PROFILE": "prd"}).startswith("env NEVE_PROFILE profile: must be dev, staging or prod")
        assert refusal(profile="prd").startswith("flag --profile profile: must be dev, staging or prod, not 'prd'")
        assert refusal(env={"NEVE_SPARK__PACKAGES": "a:b:1,x"}).startswith(
            "env NEVE_SPARK__PACKAGES spark.packages[1]:"
        )
        assert refusal(env={"NEVE_SPARK__CONF": '{"a": null}'}) == "env NEVE_SPARK__CONF spark.conf.a: needs a value"
        assert len(refusal(env={"NEVE_A": "", "NEVE_B": ""}).splitlines()) == 2


ENV_WITH_SECRETS = {
    "NEVE_CATALOG__TYPE": "postgresql",
    "NEVE_CATALOG__URI": "postgresql://ada:hunter2@db/lake",
    "NEVE_CATALOG__PASSWORD": "hunter2",
    "NEVE_CATALOG__TOKEN": "hunter2",
    "NEVE_CATALOG__PROPERTIES": "credential=hunter2,s3.secret-access-key=hunter2",
    "NEVE_STATE__URI": "postgresql:///lake?user=ada&password=hunter2",
    "NEVE_S3__ENDPOINT": "http://ada:hunter2@localhost:9000",
    "NEVE_S3__ACCESS_KEY_ID": "hunter2",
    "NEVE_S3__SECRET_ACCESS_KEY": "hunter2",
    "NEVE_S3__SESSION_TOKEN": "hunter2",
    "NEVE_SPARK__CONF": "spark.hadoop.fs.s3a.secret.key=hunter2,spark.url=jdbc:x://ada:hunter2@h",
    "NEVE_SPARK__CONF__spark.driver.extraJavaOptions": "-Dstore.password=hunter2 -Dx=1",
}


class TestSecrets:
    def test_secrets_are_there_but_never_shown(self, load):
        loaded = load(env=ENV_WITH_SECRETS)
        assert loaded.settings.catalog.password is not None
        assert loaded.settings.catalog.password.get_secret_value() == SECRET
        assert loaded.catalog_uri == "postgresql://ada:hunter2@db/lake"
        assert loaded.settings.spark.conf["spark.hadoop.fs.s3a.secret.key"] == SECRET
        views = [repr(loaded), str(loaded.settings), repr(loaded.settings.catalog), loaded.settings.model_dump_json()]
        views += [str(render_settings(loaded)), f"{loaded.settings!s:s}"]
        assert not [view for view in views if SECRET in view]

    def test_what_is_no_secret_is_shown(self, load):
        rows = shown(load(env=ENV_WITH_SECRETS))
        assert rows["catalog.uri"] == "postgresql://ada:********@db/lake"
        assert rows["state.uri"] == "postgresql:///lake?user=ada&password=********"
        assert rows["catalog.password"] == rows["s3.access_key_id"] == "********"
        assert rows["spark.conf.spark.url"] == "jdbc:x://ada:********@h"
        assert rows["spark.conf.spark.driver.extraJavaOptions"] == "-Dstore.password=******** -Dx=1"
        assert shown(load())["catalog.password"] == ""

    @pytest.mark.parametrize(
        "text",
        [
            "catalog: {password: [hunter2]}",
            "s3: {access_key_id: {hunter2: 1}}",
            "catalog: {type: rest, uri: 'postgresql://ada:hunter2@db/lake'}",
            "state: {uri: 'hunter2'}",
            "s3: {endpoint: hunter2}",
            "warehouse: ftp://ada:hunter2@host/x",
            "catalog: {password: hunter2, type: hive}",
            "catalog: {password: *hunter2}",
        ],
    )
    def test_errors_do_not_tell(self, load, text):
        with pytest.raises(ConfigError) as caught:
            load(text)
        assert SECRET not in "".join(traceback.format_exception(caught.value))

    def test_direct_construction_does_not_tell(self):
        with pytest.raises(ValidationError) as caught:
            Settings.model_validate({"s3": {"access_key_id": SECRET}})
        assert SECRET not in str(caught.value)

    @pytest.mark.parametrize(
        ("url", "expected"),
        [
            ("postgresql://db/lake", "postgresql://db/lake"),
            ("postgresql://ada@db:5432/lake", "postgresql://ada@db:5432/lake"),
            ("postgresql://ada:p@ss/w:rd@db/lake", "postgresql://ada:********@db/lake"),
            ("postgresql://:pw@db/lake", "postgresql://:********@db/lake"),
            ("postgresql://a/b:pw@db", "postgresql://a/b:********@db"),
            ("https://h/x?a=1&access_token=t&b=2", "https://h/x?a=1&access_token=********&b=2"),
            ("thrift://a:9083,thrift://b:9083", "thrift://a:9083,thrift://b:9083"),
            ("warehouse", "warehouse"),
        ],
    )
    def test_masked_urls(self, url, expected):
        assert mask_url(url) == expected


class TestPlaces:
    def test_defaults_are_in_the_lake_folder(self, load, tmp_path):
        loaded, root = load(), tmp_path.resolve()
        assert loaded.root == root
        assert loaded.warehouse_location == f"{root}/warehouse"
        assert loaded.state_uri == f"sqlite:///{root}/.metadata.db"
        assert loaded.state_uri.startswith("sqlite:////")
        assert loaded.catalog_uri == f"sqlite:///{root}/catalog.db"
        assert loaded.jars_folder is None

    def test_relative_and_absolute_paths(self, load, tmp_path):
        loaded = load(
            "warehouse: ../data\nspark: {jars: lib}\n"
            "state: {uri: 'sqlite:///s.db'}\ncatalog: {uri: 'sqlite:////c.db'}\n"
        )
        assert loaded.warehouse_location == str(tmp_path.resolve().parent / "data")
        assert loaded.state_uri == f"sqlite:///{tmp_path.resolve()}/s.db"
        assert loaded.catalog_uri == "sqlite:////c.db"
        assert loaded.jars_folder == tmp_path.resolve() / "lib"
        assert load("warehouse: /data").warehouse_location == "/data"

    def test_remote_places_are_left_as_they_are(self, load):
        loaded = load("warehouse: s3://bucket/lake/\nstate: {uri: 'postgresql://h/d'}\ncatalog: {type: glue}\n")
        assert loaded.warehouse_location == "s3://bucket/lake"
        assert loaded.state_uri == "postgresql://h/d"
        assert loaded.catalog_uri is None

    def test_a_relative_root_becomes_absolute(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert load_settings(Path(), flags={}, env={}).warehouse_location == f"{tmp_path.resolve()}/warehouse"

    def test_the_lake_is_found_upwards(self, tmp_path):
        outer, inner = tmp_path / "outer", tmp_path / "outer" / "inner" / "deep"
        inner.mkdir(parents=True)
        assert find_lake(inner) is None
        (outer / "neve.yaml").touch()
        assert find_lake(inner) == find_lake(outer) == outer.resolve()
        (inner.parent / "neve.yaml").touch()
        assert find_lake(inner) == inner.parent.resolve()


class TestTemplate:
    def test_unchanged_it_sets_nothing(self, load):
        loaded = load(NEVE_YAML)
        assert loaded.settings == Settings()
        assert not [source for source in loaded.sources.values() if source.startswith("neve.yaml")]

    def test_uncommented_it_gives_the_defaults_and_names_every_setting(self, load):
        text = re.sub(r"(?m)^#(?! \S)", "", NEVE_YAML)
        loaded = load(text)
        assert loaded.settings == Settings()
        from_file = {key for key, source in loaded.sources.items() if source.startswith("neve.yaml")}
        assert from_file == {key.name for key in setting_keys()}
        assert "prod" in yaml.safe_load(text)["profiles"]

    def test_one_line_uncommented_works(self, load):
        loaded = load(NEVE_YAML.replace("#  compression_codec: zstd", "   compression_codec: gzip"))
        assert loaded.settings.write.compression_codec == "gzip"

    def test_each_setting_is_explained_in_its_line(self):
        lines = [line for line in NEVE_YAML.splitlines() if re.match(r"#  \w", line)]
        explained = [line for line in lines if re.fullmatch(r"#  \w+: \S+ +# \S.*", line)]
        assert len(explained) == len(setting_keys()) - 2  # profile and warehouse are explained above
        assert len(lines) == len(explained) + 1  # the example of a profile
        assert max(map(len, NEVE_YAML.splitlines())) <= 120


def test_rows_cross_a_wire(load):
    row = render_settings(load("spark: {packages: ['a:b:1', 'c:d:2']}"))
    assert json.loads(next(r for r in row if r.key == "spark.packages").model_dump_json()) == {
        "key": "spark.packages",
        "value": "a:b:1, c:d:2",
        "source": "neve.yaml:1",
    }
