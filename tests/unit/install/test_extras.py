"""An extra that is not installed is named, wherever its absence comes to light."""

from pathlib import Path

import pytest

from meltline.app.doctor.installation import installation_findings
from meltline.domain.errors import MissingExtra, SetupMissing
from meltline.extras import explained, installed_version, require_module, require_spark


def test_this_environment_has_every_extra_and_one_spark() -> None:
    assert installed_version("pyspark") == installed_version("pyspark-client")
    require_spark()
    require_module("great_expectations")


def test_a_client_alone_is_no_spark() -> None:
    with pytest.raises(MissingExtra) as refused:
        require_spark({"pyspark-client": "4.1.1"}.get)
    assert refused.value.next == "pip install 'meltline[spark]'"


def test_two_versions_of_spark_are_named_with_the_way_out() -> None:
    versions = {"pyspark": "4.1.1", "pyspark-client": "4.2.0"}.get
    with pytest.raises(SetupMissing) as refused:
        require_spark(versions)
    assert not isinstance(refused.value, MissingExtra)
    assert "4.1.1" in refused.value.found and "4.2.0" in refused.value.found
    (finding,) = installation_findings({}, versions)
    assert (finding.level, finding.code) == ("error", "spark_overwritten")
    assert finding.fix == "pip install --force-reinstall pyspark==4.1.1 pyspark-client==4.1.1"


def test_doctor_names_jars_that_are_missing_and_where_spark_is_not_needed_says_so(
    tmp_path: Path,
) -> None:
    (finding,) = installation_findings({"MELTLINE_JARS": str(tmp_path)})
    assert (finding.level, finding.code) == ("error", "jars_missing")
    assert "meltline jars fetch" in finding.fix
    (finding,) = installation_findings({}, {"pyspark-client": "4.1.1"}.get)
    assert (finding.level, finding.code) == ("info", "spark_absent")


def test_an_error_of_others_is_explained_by_the_package_that_is_missing() -> None:
    missing = ModuleNotFoundError("No module named 'thrift_of_nobody'", name="thrift_of_nobody")
    assert explained(missing) is None
    assert explained(ImportError("odd", name="pyspark")) is None  # it is installed
    assert explained(ValueError("x")) is None
