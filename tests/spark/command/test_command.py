"""The `meltline` command on a real lake: what scripts rely on."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from meltline.cli.main import run
from meltline.domain.units import format_instant
from tests.spark.setups.warehouse import TODAY, Warehouse

pytestmark = pytest.mark.spark

Answer = tuple[int, Any]


class Command:
    """Runs commands on one lake at a simulated instant, and reads their one JSON document."""

    def __init__(self, lake: Warehouse, capsys: pytest.CaptureFixture[str]) -> None:
        self.lake = lake
        self._capsys = capsys

    def __call__(self, *words: str, days: float = 0) -> Answer:
        code, text = self.text(*words, "--json", days=days)
        return code, json.loads(text)

    def text(self, *words: str, days: float = 0) -> tuple[int, str]:
        """What a person sees who did not ask for JSON."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("MELTLINE_CONFIG", str(self.lake.yaml))
            patch.setenv("MELTLINE_NOW", format_instant(TODAY + timedelta(days=days)))
            self._capsys.readouterr()
            code = run([*words])
        return code, self._capsys.readouterr().out


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    lake = Warehouse.empty(tmp_path_factory.mktemp("command") / "it's a [lake]", "commands")
    for table in ("busy", "quiet"):
        lake.create(table)
    lake.overwrite("busy", *range(0, 60, 10))
    lake.append("quiet", 1, 5)
    lake.stage("busy", timedelta(days=30), timedelta(days=1))
    lake.stage("quiet", timedelta(days=3), timedelta(days=2))
    return lake


@pytest.fixture
def meltline(shared: Warehouse, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(shared, capsys)


@contextmanager
def hidden(path: Path) -> Iterator[None]:
    """A file that is away for a while."""
    aside = path.with_name(path.name + ".aside")
    path.rename(aside)
    try:
        yield
    finally:
        aside.rename(path)


def error_of(answer: Answer) -> tuple[int, str]:
    code, document = answer
    assert set(document["error"]) == {"type", "message", "object", "expected", "found", "next"}
    assert document["error"]["next"]
    return code, document["error"]["type"]


def test_1_before_init_every_command_says_what_to_do(meltline: Command) -> None:
    assert error_of(meltline("storage")) == (1, "SetupMissing")
    code, document = meltline("doctor")
    assert code == 1
    assert [f["code"] for f in document["findings"]] == ["not_initialised"]


def test_2_init_twice_is_init_once(meltline: Command) -> None:
    assert meltline("init") == meltline("init")
    code, document = meltline("doctor")
    # Nothing is wrong; what a DROP of another tool would delete is good to know.
    assert (code, [f["code"] for f in document["findings"]]) == (
        0,
        ["armed_sandbox", "drop_purge_deletes"],
    )


def test_3_a_dry_run_plans_and_changes_nothing(meltline: Command) -> None:
    before = meltline.lake.rows()
    code, document = meltline("run", "--dry-run")
    assert code == 0
    assert {plan["table"] for plan in document["plans"]} == {"commands.n.busy"}
    code, shown = meltline("show", "plan", "last", "--items")
    assert (code, shown["state"], shown["run_id"]) == (
        0,
        "stale",
        f"{document['run_id']} (dry run)",
    )
    assert len(shown["items"]) == shown["files"] and shown["items"][0]["why"]
    after = meltline.lake.rows()
    assert {n: after[n] for n in after if n.startswith("n.")} == {
        n: before[n] for n in before if n.startswith("n.")
    }


def test_4_plan_gate_apply_do_what_they_say(meltline: Command) -> None:
    code, planned = meltline("plan", "expire", "--tables", "commands.n.b*")
    assert code == 0
    (plan,) = planned["plans"]
    assert plan["state"] == "planned" and plan["snapshots"] and plan["files"]
    code, shown = meltline("show", "plan", plan["id"][:8], "--items")
    assert [item["path"] for item in shown["items"]] == sorted(i["path"] for i in shown["items"])
    assert len(shown["items"]) == plan["files"]
    assert sum(item["bytes"] for item in shown["items"]) == plan["bytes"]
    assert error_of(meltline("apply", plan["id"])) == (3, "GateNotPassed")
    code, gate = meltline("gate", "last")
    assert code == 0 and gate["passed"] and gate["digest"] == plan["digest"]
    assert gate["evaluated"] >= 20 and gate["failed"] == []
    code, done = meltline("apply", plan["id"])
    assert (code, done["state"], done["failed"]) == (0, "applied", [])
    assert done["snapshots_expired"] == len(plan["snapshots"])
    assert done["files_departed"] == plan["files"]
    code, again = meltline("apply", plan["id"])
    assert (code, again["snapshots_expired"], again["files_departed"]) == (0, 0, 0)
    code, text = meltline.text("apply", plan["id"])
    assert code == 0 and "commands.n.busy is applied: 0 snapshots expired" in " ".join(text.split())
    assert "{" not in text
    assert not set(plan["snapshots"]) & set(meltline.lake.snapshots("busy"))


def test_5_the_digest_can_be_computed_by_anybody(meltline: Command) -> None:
    from hashlib import sha256

    _, shown = meltline("show", "plan", "last", "--items")
    lines = [f"{shown['table_uuid']}\tsnapshot\t{sid}\n" for sid in shown["snapshots"]]
    lines += [f"{shown['table_uuid']}\tref\t{ref}\n" for ref in shown["refs"]]
    lines += [f"{shown['table_uuid']}\t{i['kind']}\t{i['path']}\n" for i in shown["items"]]
    joined = b"".join(sorted(line.encode() for line in lines))
    assert shown["digest"] == "sha256:" + sha256(joined).hexdigest()


def test_6_storage_adds_up_to_what_is_on_disk(meltline: Command) -> None:
    _, document = meltline("storage", "--listing")
    rows = {row["table"]: row for row in document["rows"]}
    stages = ("active", "historical", "retained_for_clone", "failsafe")
    for table in ("busy", "quiet"):
        row = rows[f"commands.n.{table}"]
        files = (meltline.lake.folder / "n" / table).rglob("*")
        on_disk = sum(f.stat().st_size for f in files if f.is_file() and f.suffix != ".crc")
        assert sum(row[f"{stage}_bytes"] for stage in stages) == on_disk
        assert row["in_flight_bytes"] == 0
    assert rows["commands.n.busy"]["failsafe_bytes"] > 0
    _, summed = meltline("storage", "--by", "catalog")
    (total,) = summed["rows"]
    assert total["active_bytes"] == sum(row["active_bytes"] for row in rows.values())


def test_7_explain_says_why_and_until_when(meltline: Command) -> None:
    _, shown = meltline("show", "plan", "last", "--items")
    code, waiting = meltline("explain", shown["items"][0]["path"])
    assert (code, waiting["stage"], waiting["keep_reasons"]) == (0, "failsafe", ["failsafe"])
    assert waiting["due_at"] > waiting["since"]
    head = meltline.lake.snapshots("busy")[-1]
    _, snapshot = meltline("explain", f"commands.n.busy@{head}")
    assert snapshot["stage"] == "active" and "head" in snapshot["keep_reasons"]
    assert snapshot["referenced_by"] == ["main"]
    assert error_of(meltline("explain", "file:/nowhere/at/all")) == (2, "UsageInvalid")


def test_8_stop_holds_back_and_go_lets_go(meltline: Command) -> None:
    meltline("stop", "--reason", "a test", days=8)
    code, document = meltline("run", days=8)
    assert code == 3
    refused = [t["refused"] or "" for t in document["tables"]]
    assert any("a test" in reason for reason in refused)
    assert meltline("doctor", days=8)[1]["findings"][0]["code"] == "stopped"
    meltline("go", days=8)
    code, document = meltline("run", days=8)
    assert code == 0
    assert sum(t["files_purged"] for t in document["tables"]) > 0


def test_9_a_second_run_changes_nothing(meltline: Command) -> None:
    before = meltline.lake.rows()
    code, document = meltline("run", days=8)
    assert (code, document["plans"]) == (0, [])
    assert meltline.lake.rows() == before


def test_a_unreadable_table_is_skipped_by_name_and_the_others_go_on(meltline: Command) -> None:
    meltline.lake.overwrite("busy", 500)
    location = Path(meltline.lake.location("quiet").removeprefix("file:"))
    with hidden(location):
        code, document = meltline("run", days=20)
        assert meltline("doctor", days=20)[0] == 1
    tables = {table["table"]: table for table in document["tables"]}
    assert code == 4
    assert "no such file" in tables["commands.n.quiet"]["skipped"]
    assert tables["commands.n.busy"]["skipped"] is None
    assert meltline("run", days=20)[0] == 0


def test_b_detached_tables_are_left_alone_until_attached(meltline: Command) -> None:
    meltline.lake.overwrite("busy", 600)
    assert meltline("detach", "commands.n.busy", days=60)[0] == 0
    _, document = meltline("plan", "expire", "--tables", "*.busy", days=60)
    assert document["plans"] == []
    meltline("attach", "commands.n.busy", days=60)
    _, document = meltline("plan", "expire", "--tables", "*.busy", days=60)
    assert [plan["table"] for plan in document["plans"]] == ["commands.n.busy"]


def test_c_bad_words_are_usage_errors(meltline: Command) -> None:
    assert error_of(meltline("frobnicate")) == (2, "UsageInvalid")
    assert error_of(meltline("storage", "--by", "moon")) == (2, "UsageInvalid")
    assert error_of(meltline("run", "--as-of", "2999-01-01")) == (2, "AsOfInFuture")
    assert error_of(meltline("run", "--as-of", "yesterday")) == (2, "UsageInvalid")
    assert error_of(meltline("gate", "zzz")) == (2, "PlanNotFound")
    assert error_of(meltline("doctor", "--config", "nowhere.yaml")) == (2, "ConfigInvalid")
