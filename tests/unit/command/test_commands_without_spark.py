"""The commands that decide and undo: what scripts rely on, and that they start and load little.

The table of these tests says it has a million files and has none of them: a command that opened a
manifest list, let alone a manifest, would fail.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import meltline as meltline_in_python
from meltline.app.safety.epochs import adopt_epoch
from meltline.app.safety.switches import go, stop
from meltline.cli.main import run
from meltline.config.load import load_config
from meltline.domain.units import format_instant
from meltline.wiring import Wiring
from tests.command_home import COMMITS, TABLE, Home, committed_at, make_home
from tests.lake.lake import Lake

ROOT = Path(__file__).resolve().parents[3]
HEAVY = ("pyspark", "py4j", "pyarrow", "great_expectations", "airflow", "pandas")
OLD_MAIL_DATE = "Wed, 26 Jun 2024 09:20:00 -0700"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return make_home(tmp_path)


Answer = tuple[int, Any]


@pytest.fixture
def meltline(
    home: Home, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Answer]:
    monkeypatch.setenv("MELTLINE_CONFIG", str(home.folder / "meltline.yaml"))
    monkeypatch.setenv("MELTLINE_USER", "ann")

    def call(*words: str) -> Answer:
        capsys.readouterr()
        code = run([*words, "--json"])
        return code, json.loads(capsys.readouterr().out)

    return call


# --- what is loaded -------------------------------------------------------------------------------


COMMANDS = [
    ("disarm", "lake"),
    ("policy", "set", TABLE, "--retention-days", "30"),
    ("policy", "set", "--account", "--min-retention-days", "2"),
    ("policy", "unset", TABLE, "--retention-days"),
    ("policy", "show", TABLE),
    ("tag", TABLE, "q1", "--retention-days", "90"),
    ("tags", TABLE),
    ("untag", TABLE, "q1"),
    ("hold", "add", TABLE, "--reason", "audit", "--until", "2099-01-01"),
    ("hold", "add", f"{TABLE}@1", "--reason", "audit"),
    ("hold", "add", "lake.air", "--reason", "audit"),
    ("hold", "list"),
    ("hold", "remove", "{hold}", "--reason", "done"),
    ("consumer", "set", TABLE, "bill", "--snapshot", "1", "--expires-after", "3d"),
    ("consumer", "list"),
    ("consumer", "list", TABLE),
    ("consumer", "remove", TABLE, "bill"),
    ("branch", TABLE, "b"),
    ("diff", TABLE, "1", "main"),
    ("rollback", TABLE, "--to", "2"),
    ("publish", TABLE, "wip"),
    ("resync", TABLE, "b"),
    ("lease", "acquire", TABLE, "--snapshot", "1", "--ttl", "1h"),
    ("lease", "renew", "{lease}"),
    ("lease", "list"),
    ("lease", "release", "{lease}"),
    ("sql", "SHOW TABLES HISTORY LIKE 'it%' IN lake.air"),
    ("sql", "ALTER TABLE `it's t` SET DATA_RETENTION_TIME_IN_DAYS=30", "--in", "lake.air"),
    ("sql", "TAG snapshot 1 AS 'q4' WITH RETENTION 30 DAYS"),
    ("sql", "DROP TABLE lake.air.`it's t`"),
    ("sql", "UNDROP TABLE lake.air.`it's t`"),
    ("audit", "--of", TABLE),
    ("history", "tables", "--like", "it%", "--in", "lake.air"),
    ("rename", TABLE, "lake.air.u"),
    ("drop", "lake.air.u"),
    ("undrop", "lake.air.u"),
    ("rename", "lake.air.u", TABLE),
    ("drop", "lake.air"),
    ("history", "databases"),
    ("undrop", "lake.air"),
    ("history", "schemas"),
    ("clone", TABLE, "lake.air.c", "--at", "--timestamp", format_instant(committed_at(2))),
    ("clone", "lake.air.c", "lake.air.d"),
    ("clone", "lake.air", "lake.sea", "--kind", "database", "--at", "--offset", "-60"),
    ("sql", "CREATE TABLE lake.air.e CLONE lake.air.c AT(OFFSET => 0)"),
    ("sql", "CREATE DATABASE y FROM lake.air"),
    ("sql", "CREATE SHARE q2 FROM air"),
    ("sql", "UPDATE SHARE q2"),
    ("sql", "SELECT * FROM MD_INFORMATION_SCHEMA.OWNED_SHARES"),
    ("sql", "SELECT * FROM MD_INFORMATION_SCHEMA.STORAGE_INFO"),
    ("sql", "DROP SHARE q2"),
    ("share", "create", "q1", "--from", "lake.air", "--auto"),
    ("share", "update", "q1"),
    ("share", "list", "--of", "lake.air"),
    ("share", "drop", "q1"),
    ("plan", "handoff"),
    ("cold", "status"),
    ("runs", "--day", "2026-01-01", "--state", "done"),
    ("plans", "--state", "applied,refused", "--kind", "purge"),
    ("status",),
    ("doctor",),
]

SCRIPT = """
import io, json, sys
from contextlib import redirect_stdout
from meltline.cli.main import run

heavy, commands, made = json.loads(sys.argv[1]), json.loads(sys.argv[2]), {}
for words in commands:
    said = io.StringIO()
    with redirect_stdout(said):
        code = run([word.format(**made) for word in words] + ["--json"])
    answer = json.loads(said.getvalue())
    made[words[0]] = answer.get("id", made.get(words[0]))
    loaded = [name for name in heavy if name in sys.modules]
    print(json.dumps({"command": words[:2], "code": code, "loaded": loaded, "said": answer}))
"""


def test_no_command_of_these_loads_spark_arrow_airflow_or_great_expectations(home: Home) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(HEAVY), json.dumps(COMMANDS)],
        env=os.environ
        | {
            "PYTHONPATH": str(ROOT / "include"),
            "MELTLINE_CONFIG": str(home.folder / "meltline.yaml"),
            "JAVA_HOME": "/nowhere",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(COMMANDS)
    for answer in answers:
        assert answer["loaded"] == [], answer["command"]
        # `init` has not been run whole, and nobody has armed the catalog.
        expected = {"doctor": 1, "status": 4}.get(answer["command"][0], 0)
        assert answer["code"] == expected, answer


# --- what they answer -----------------------------------------------------------------------------


def test_doctor_looks_at_the_files_of_every_head_where_it_is_asked_to(meltline: Any) -> None:
    def torn(*words: str) -> set[str]:
        findings = meltline("doctor", *words)[1]["findings"]
        return {finding["object"] for finding in findings if finding["code"] == "head_torn"}

    assert torn() == set()
    assert torn("--deep") == {f"{TABLE}@4"}  # whose manifest list nobody has written


def test_a_catalog_is_armed_and_disarmed_and_doctor_tells(meltline: Any, home: Home) -> None:
    context = Wiring(load_config(home.folder / "meltline.yaml", {}, home.folder)).ledgers()
    adopt_epoch(context, {}, 1)  # as `init` does, without Spark

    def is_reported() -> bool:
        return "not_armed" in {finding["code"] for finding in meltline("doctor")[1]["findings"]}

    assert is_reported()
    code, refused = meltline("arm", "theirs", "--reason", "looked")
    assert code == 2 and "lake" in refused["error"]["expected"]
    code, done = meltline("arm", "lake", "--reason", "looked")
    assert code == 0 and done["arming"]["reason"] == "looked" and done["arming"]["who"] == "ann"
    assert not is_reported()
    code, done = meltline("disarm", "lake", "--reason", "a new colleague")
    assert (code, done["armed"], done["catalog_error"]) == (0, False, None)
    assert is_reported()
    entries = meltline("audit", "--of", "lake")[1]["entries"]
    assert {"arm", "disarm"} <= {entry["action"] for entry in entries}


def test_policies_are_shown_with_raw_effective_and_source(meltline: Any, home: Home) -> None:
    code, done = meltline("policy", "set", TABLE, "--retention-days", "30", "--failsafe-days", "9")
    assert code == 0 and done["object"] == TABLE and done["kind"] == "table"
    assert done["policies"] == [
        {"key": "meltline.retention-days", "before": None, "after": "30"},
        {"key": "meltline.failsafe-days", "before": None, "after": "9"},
    ]
    assert home.document()["properties"] == {
        "meltline.retention-days": "30", "meltline.failsafe-days": "9"
    }  # fmt: skip
    code, shown = meltline("policy", "show", TABLE)
    first = shown["policies"][0]
    assert code == 0 and {k: first[k] for k in ("key", "raw", "effective", "source")} == {
        "key": "meltline.retention-days", "raw": "30", "effective": 30, "source": TABLE
    }  # fmt: skip
    code, shown = meltline("policy", "show", "lake.air", "--kind", "database")
    assert code == 0 and shown["policies"][0]["source"] == "profile"


def test_a_dry_run_says_what_would_come_of_it_and_sets_nothing(meltline: Any, home: Home) -> None:
    code, would = meltline("policy", "set", TABLE, "--retention-days", "0", "--dry-run")
    assert code == 0 and would["dry_run"] and would["warnings"]
    assert would["effect"] == [
        {"table": TABLE, "expiring_before": 0, "expiring_after": COMMITS - 1}
    ]
    assert home.document()["properties"] == {}


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (("policy", "set", TABLE, "--retention-days", "91"), 2, "RetentionOutOfRange"),
        (("policy", "set", TABLE, "--transient"), 2, "TransientImmutable"),
        (("policy", "set", TABLE), 2, "UsageInvalid"),
        (("policy", "set", "--retention-days", "3"), 2, "UsageInvalid"),
        (("policy", "set", TABLE, "--account", "--retention-days", "3"), 2, "UsageInvalid"),
        (("policy", "set", TABLE, "--min-retention-days", "3"), 2, "UsageInvalid"),
        (("policy", "show", "lake.never"), 2, "TableNotFound"),
        (("policy", "show", "lake.air", "--kind", "schema"), 2, "NamespaceNotFound"),
        (("policy", "show", "lake.air", "--kind", "view"), 2, "UsageInvalid"),
        (("tag", TABLE, "t"), 2, "UsageInvalid"),
        (("tag", TABLE, "t", "--retention-days", "soon"), 2, "UsageInvalid"),
        (("tag", TABLE, "t", "--retention-days", "3", "--snapshot", "77"), 2, "SnapshotNotFound"),
        (("tag", TABLE, "t", "--retention-days", "3", "--at", "2001-01-01"), 2, "OutsideRetention"),
        (("tag", TABLE, "t", "--retention-days", "3", "--at", "noon"), 2, "UsageInvalid"),
        (("tag", TABLE, "wip", "--retention-days", "3"), 2, "NameConflict"),
        (("untag", TABLE, "never"), 2, "RefNotFound"),
        (("tags", "air"), 2, "TableNotFound"),
        (("hold", "add", TABLE), 2, "UsageInvalid"),
        (("hold", "add", TABLE, "--reason", " "), 2, "UsageInvalid"),
        (("hold", "add", TABLE, "--reason", "r", "--until", "2001-01-01"), 2, "UsageInvalid"),
        (("hold", "remove", "never", "--reason", "r"), 2, "HoldNotFound"),
        (("consumer", "set", TABLE, "bill", "--snapshot", "99"), 2, "SnapshotNotFound"),
        (("consumer", "set", TABLE, "bill"), 2, "UsageInvalid"),
        (
            ("consumer", "set", TABLE, "bill", "--snapshot", "1", "--expires-after", "soon"),
            2,
            "UsageInvalid",
        ),
        (("consumer", "remove", TABLE, "never"), 2, "ConsumerNotFound"),
        (("rollback", TABLE), 2, "UsageInvalid"),
        (("rollback", TABLE, "--to", "1", "--at", "2001-01-01"), 2, "UsageInvalid"),
        (("publish", TABLE, "never"), 2, "RefNotFound"),
        (("diff", TABLE, "main", "never"), 2, "SnapshotNotFound"),
        (("query", TABLE, "--at"), 2, "UsageInvalid"),
        (("query", TABLE, "--tag", "q"), 2, "UsageInvalid"),
        (("query", TABLE, "--at", "--before", "--tag", "q"), 2, "UsageInvalid"),
        (("query", TABLE, "--at", "--tag", "q", "--offset", "-1"), 2, "UsageInvalid"),
        (("query", TABLE, "--at", "--tag", "q"), 2, "RefNotFound"),
        (("query", TABLE, "--at", "--offset", "1"), 2, "UsageInvalid"),
        (("query", TABLE, "--at", "--offset", "soon"), 2, "UsageInvalid"),
        (("query", TABLE, "--at", "--timestamp", "noon"), 2, "UsageInvalid"),
        (("query", TABLE, "--at", "--timestamp", "2024-06-26 09:20:00"), 2, "UsageInvalid"),
        (("query", TABLE, "--at", "--timestamp", "2001-01-01"), 2, "OutsideRetention"),
        (("query", TABLE, "--before", "--timestamp", OLD_MAIL_DATE), 2, "OutsideRetention"),
        (("query", TABLE, "--at", "--timestamp", "2999-01-01"), 2, "OutsideRetention"),
        (("query", TABLE, "--before", "--statement", "never"), 2, "StatementNotFound"),
        (("query", TABLE, "--at", "--tag", "q", "--schema", "old"), 2, "UsageInvalid"),
        (("query", "lake.air.never", "--at", "--offset", "0"), 2, "TableNotFound"),
        (("clone", TABLE, TABLE), 2, "NameConflict"),
        (("clone", TABLE, "lake.never.t"), 2, "NamespaceNotFound"),
        (("clone", TABLE, "t"), 2, "UsageInvalid"),
        (("clone", "lake.air.never", "lake.air.c"), 2, "TableNotFound"),
        (("clone", "lake.never", "lake.sea", "--kind", "schema"), 2, "NamespaceNotFound"),
        (("clone", TABLE, "lake.air.c", "--at"), 2, "UsageInvalid"),
        (("clone", TABLE, "lake.air.c", "--offset", "-1"), 2, "UsageInvalid"),
        (("clone", TABLE, "lake.air.c", "--at", "--before", "--offset", "-1"), 2, "UsageInvalid"),
        (("clone", TABLE, "lake.air.c", "--at", "--offset", "1"), 2, "UsageInvalid"),
        (("clone", TABLE, "lake.air.c", "--at", "--tag", "q"), 2, "RefNotFound"),
        (("clone", TABLE, "lake.air.c", "--at", "--statement", "q"), 2, "StatementNotFound"),
        (("clone", TABLE, "lake.air.c", "--at", "--timestamp", "2001-01-01"), 2, "BeforeCreation"),
        (("share", "create", "q1"), 2, "UsageInvalid"),
        (("share", "create", "air", "--from", TABLE), 2, "NameConflict"),
        (("share", "create", "a.b", "--from", TABLE), 2, "UsageInvalid"),
        (("share", "create", "q1", "--from", "lake.never"), 2, "TableNotFound"),
        (("share", "update", "never"), 2, "ShareNotFound"),
        (("share", "drop", "never"), 2, "ShareNotFound"),
        (("share", "list", "--of", "lake.never"), 2, "TableNotFound"),
        (("sql", "UNDROP TABLE"), 2, "SqlUnreadable"),
        (("sql", "UNDROP TABLE lake.air.never"), 2, "NotDropped"),
        (("sql", "UNDROP TABLE never"), 2, "UsageInvalid"),
        (("sql", "UNDROP TABLE never", "--in", "a..b"), 2, "UsageInvalid"),
        (("sql", "CREATE SHARE s FROM lake.never"), 2, "TableNotFound"),
        (("sql", f"CREATE TABLE {TABLE} CLONE {TABLE}"), 2, "NameConflict"),
        (("sql", "SELECT * FROM MD_INFORMATION_SCHEMA.QUERIES"), 2, "StatementUnsupported"),
        (("sql", f"SELECT * FROM {TABLE} AT(OFFSET => 1)"), 2, "UsageInvalid"),
        (("sql", f"SELECT * FROM {TABLE} AT(TIMESTAMP => '2001-01-01')"), 2, "OutsideRetention"),
        (("lease", "acquire", TABLE), 2, "UsageInvalid"),
        (("lease", "acquire", TABLE, "--ttl", "soon"), 2, "UsageInvalid"),
        (("lease", "acquire", TABLE, "--ttl", "8d"), 2, "UsageInvalid"),
        (("lease", "acquire", TABLE, "--ttl", "1h", "--snapshot", "77"), 2, "SnapshotNotFound"),
        (("lease", "renew", "never"), 2, "LeaseNotFound"),
        (("lease", "release", "never"), 2, "LeaseNotFound"),
        (("audit", "--since", "yesterday"), 2, "UsageInvalid"),
        (("runs", "--day", "today"), 2, "UsageInvalid"),
        (("runs", "--state", "odd"), 2, "UsageInvalid"),
        (("plans", "--state", "applied,odd"), 2, "UsageInvalid"),
        (("plans", "--run", "never"), 2, "RunNotFound"),
        (("show", "run", "last"), 2, "RunNotFound"),
        (("drop", "lake.air.never"), 2, "TableNotFound"),
        (("drop", "lake.never", "--kind", "database"), 2, "NamespaceNotFound"),
        (("drop", "lake.meltline"), 2, "TableNotFound"),
        (("undrop", "lake.air.never"), 2, "NotDropped"),
        (("undrop", "lake.never", "--kind", "table"), 2, "UsageInvalid"),
        (("rename", TABLE, TABLE), 2, "NameConflict"),
        (("rename", TABLE, "lake.never.t"), 2, "NamespaceNotFound"),
        (("rename", TABLE, "lake.`a.b`.t"), 2, "NamespaceNotFound"),
        (("history", "views"), 2, "UsageInvalid"),
        (("history", "tables", "--in", "lake.never"), 2, "NamespaceNotFound"),
        (("recover", TABLE, "--as", "lake.air.new"), 2, "UsageInvalid"),
        (("recover", f"{TABLE}@1", "--as", "lake.air.n", "--reason", "r"), 1, "RecoveryImpossible"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_bad_words_are_refused_with_what_to_do_and_nothing_is_changed(
    meltline: Any, home: Home, words: tuple[str, ...], code: int, error: str
) -> None:
    before = home.document()
    found, said = meltline(*words)
    assert (found, said["error"]["type"]) == (code, error)
    assert said["error"]["next"] and said["error"]["message"]
    assert home.document() == before


def test_tags_come_and_go(meltline: Any, home: Home) -> None:
    at = format_instant(committed_at(1) + timedelta(hours=1))
    code, made = meltline("tag", TABLE, "a b", "--retention-days", "forever", "--at", at)
    assert (code, made["snapshot_id"], made["kind"], made["expires_at"]) == (0, 2, "named", None)
    assert meltline("tags", TABLE) == (
        0,
        {"tags": [{k: v for k, v in made.items() if k != "dry_run"}]},
    )
    assert home.document()["refs"]["a b"]["max-ref-age-ms"] == 2**63 - 1
    assert meltline("untag", TABLE, "a b")[0] == 0
    assert meltline("tags", TABLE) == (0, {"tags": []})


def test_holds_come_and_go(meltline: Any, home: Home) -> None:
    code, made = meltline("hold", "add", f"{TABLE}@1", "--reason", "audit")
    assert code == 0 and made["snapshot_id"] == 1 and made["state"] == "in force"
    code, found = meltline("hold", "list")
    assert code == 0 and [one["id"] for one in found["holds"]] == [made["id"]]
    assert (found["holds"][0]["who"], found["holds"][0]["reason"]) == ("ann", "audit")
    assert meltline("hold", "remove", made["id"], "--reason", "over")[0] == 0
    assert meltline("hold", "list") == (0, {"holds": [], "unreadable": []})
    assert home.document()["refs"].keys() == {"main", "wip"}


def test_consumers_come_move_and_go(meltline: Any, home: Home) -> None:
    words = ("consumer", "set", TABLE, "bill", "--snapshot")
    code, would = meltline(*words, "2", "--expires-after", "3d", "--dry-run")
    assert code == 0 and would["dry_run"] and home.document()["refs"].keys() == {"main", "wip"}
    code, made = meltline(*words, "2", "--expires-after", "3d")
    assert code == 0 and list(made) == [
        "table", "name", "snapshot_id", "state", "moved_at", "ends_at", "expires_after", "who",
        "dry_run",
    ]  # fmt: skip
    assert (made["snapshot_id"], made["expires_after"], made["who"]) == (2, "3d", "ann")
    assert meltline(*words, "3")[1]["expires_after"] == "3d"
    assert meltline(*words, "1")[0] == 3
    assert meltline(*words, "1", "--reset")[0] == 0
    code, listed = meltline("consumer", "list", TABLE)
    assert code == 0 and [(one["name"], one["snapshot_id"]) for one in listed["consumers"]] == [
        ("bill", 1)
    ]
    reader = meltline_in_python.consumer(TABLE, "bill")
    assert reader.set(3, expires_after="1h").snapshot_id == 3
    standing = reader.position()
    assert standing is not None and standing.keep == timedelta(hours=1)
    assert meltline("consumer", "remove", TABLE, "bill")[0] == 0
    assert reader.position() is None
    assert meltline("consumer", "list") == (0, {"consumers": [], "unreadable": []})
    assert home.document()["refs"].keys() == {"main", "wip"}


def test_leases_come_and_go(meltline: Any) -> None:
    code, made = meltline("lease", "acquire", TABLE, "--snapshot", "2", "--ttl", "90m")
    assert code == 0 and list(made) == ["id", "table", "snapshot_id", "expires_at", "ttl", "who"]
    assert (made["table"], made["snapshot_id"], made["ttl"]) == (TABLE, 2, "90m")
    code, renewed = meltline("lease", "renew", made["id"])
    assert code == 0 and renewed["expires_at"] >= made["expires_at"]
    assert meltline("lease", "list") == (0, {"leases": [renewed]})
    assert meltline("lease", "release", made["id"])[1]["released"]
    assert meltline("lease", "list") == (0, {"leases": []})
    code, audit = meltline("audit", "--of", TABLE)
    assert [entry["action"] for entry in audit["entries"]] == [
        "lease", "lease renew", "lease release"
    ]  # fmt: skip


def test_main_goes_back_and_forth(meltline: Any, home: Home) -> None:
    code, moved = meltline("rollback", TABLE, "--to", "2")
    assert code == 0 and (moved["before"], moved["after"], moved["commits"]) == (4, 2, 2)
    assert home.document()["current-snapshot-id"] == 2
    code, moved = meltline("publish", TABLE, "wip")
    assert code == 0 and moved["after"] == 4 and moved["changed"]
    assert meltline("publish", TABLE, "wip")[1]["changed"] is False
    code, said = meltline("diff", TABLE, "1", "wip")
    assert code == 0 and said["added"] == {
        "files": 750_000, "rows": 7_500_000, "bytes": 3_000_000_000
    }  # fmt: skip


def test_the_history_of_decisions_names_who_what_when_and_why(meltline: Any) -> None:
    meltline("policy", "set", TABLE, "--retention-days", "30")
    meltline("hold", "add", "lake.air", "--reason", "audit")
    code, said = meltline("audit", "--of", "lake.air")
    assert code == 0
    assert [(e["who"], e["action"], e["object"], e["reason"]) for e in said["entries"]] == [
        ("ann", "policy", TABLE, ""), ("ann", "hold add", "lake.air", "audit")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "action"),
    [
        (("policy", "set", TABLE, "--retention-days", "30"), "policy"),
        (("policy", "unset", TABLE, "--retention-days"), "policy"),
        (("tag", TABLE, "q1", "--retention-days", "90"), "tag"),
        (("untag", TABLE, "q1"), "untag"),
        (("detach", TABLE), "detach"),
    ],
    ids=lambda words: words if isinstance(words, str) else " ".join(words[:2]),
)
def test_each_decision_takes_a_reason_into_the_audit(
    meltline: Any, words: tuple[str, ...], action: str
) -> None:
    # PX-13
    meltline("tag", TABLE, "q1", "--retention-days", "3") if action == "untag" else None
    meltline("policy", "set", TABLE, "--retention-days", "3") if "unset" in words else None
    assert meltline(*words, "--reason", "a good one")[0] == 0
    entry = meltline("audit")[1]["entries"][-1]
    assert (entry["action"], entry["who"], entry["reason"]) == (action, "ann", "a good one")


def test_letting_a_stop_go_takes_a_reason_into_the_audit() -> None:
    # PX-13
    services = Lake().services()
    stop(services, "an incident")
    go(services, "a false alarm")
    entries = services.control.audit.entries("everything")
    assert [(entry.action, entry.reason) for entry in entries] == [
        ("stop", "an incident"),
        ("go", "a false alarm"),
    ]


def test_people_get_lines_and_what_brackets_say_is_printed_as_it_is(
    meltline: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["tag", TABLE, "v[b]", "--retention-days", "7"]) == 0
    assert f"{TABLE}: v[b] keeps snapshot 4 until" in capsys.readouterr().out
    assert run(["tags", TABLE]) == 0 and run(["hold", "list"]) == 0
    assert run(["policy", "show", TABLE]) == 0
    assert run(["history", "tables"]) == 0 and run(["drop", TABLE]) == 0
    assert run(["undrop", TABLE]) == 0 and run(["attach", "lake.`[x]`.t", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "lake.`[x]`.t: attached." in out
    assert "v[b]" in out and "meltline.retention-days" in out


def test_before_init_they_say_what_to_do(meltline: Any, home: Home) -> None:
    (home.folder / "control.db").unlink()
    for words in COMMANDS[:-1]:
        code, said = meltline(*[word.format(hold="x", lease="x") for word in words])
        assert (code, said["error"]["type"]) == (1, "SetupMissing"), words
    assert "wip" in home.document()["refs"] and not (home.folder / "control.db").exists()
