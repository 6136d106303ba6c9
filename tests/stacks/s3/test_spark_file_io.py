"""One configuration for both clients: what Spark writes by it, the object store reads by it."""

from typing import Any

import pytest

from meltline.adapters.object_store.stores import ObjectStores
from tests.stacks.s3.moto import ROLE, Moto
from tests.stacks.s3.spark_process import made_by_spark


@pytest.fixture(scope="module")
def written(
    moto: Moto, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Any], dict[str, dict[str, str]]]:
    words: dict[str, dict[str, str]] = {
        "keys": dict(moto.properties),
        "session": {**moto.where, **moto.session()},
        "role": {**moto.where, "s3.role-arn": ROLE},
        "old_scheme": dict(moto.properties),
    }
    catalogs = {}
    for name, properties in words.items():
        bucket = moto.bucket(f"spark-{name.replace('_', '-')}", versioned=name == "role")
        scheme = "s3a" if name == "old_scheme" else "s3"
        catalogs[name] = (f"{scheme}{bucket[2:]}/wh", properties)
    answers = made_by_spark(tmp_path_factory.mktemp("spark"), moto.environment, **catalogs)
    return answers, words


@pytest.mark.parametrize("name", ["keys", "session", "role", "old_scheme"])
def test_what_spark_writes_by_a_configuration_is_read_and_deleted_by_it(
    written: tuple[dict[str, Any], dict[str, dict[str, str]]],
    name: str,
    moto: Moto,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for variable, text in moto.environment.items():
        monkeypatch.setenv(variable, text)
    answer, properties = written[0][name], written[1][name]
    assert answer["rows"] == [3], answer
    store = ObjectStores(properties)
    assert len(answer["files"]) >= 2
    for path in answer["files"]:
        assert path.startswith("s3a://" if name == "old_scheme" else "s3://")
        assert store.read_prefix(path, 4).content == b"PAR1"
    assert not any(outcome.error for outcome in store.delete(answer["files"]))
    assert [stat.file for stat in store.stats(answer["files"])] == [None] * len(answer["files"])
