"""What is handed to Kubernetes: it names one image, no secret, and only what the page makes."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from meltline.version import VERSION

ROOT = Path(__file__).parents[3]
VALUES: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "helm-values.yaml").read_text())
CLAIM, JOB = yaml.safe_load_all((ROOT / "deploy" / "kubernetes.yaml").read_text())
POD: dict[str, Any] = JOB["spec"]["template"]["spec"]
(INIT,) = POD["containers"]
PAGE = (ROOT / "docs" / "deploy.md").read_text()
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def leaves(tree: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every value with the keys that lead to it."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from leaves(value, (*path, str(key)))
    elif isinstance(tree, list):
        for value in tree:
            yield from leaves(value, path)
    else:
        yield path, tree


def test_all_of_it_runs_the_image_of_this_version() -> None:
    image = f"{VALUES['defaultAirflowRepository']}:{VALUES['defaultAirflowTag']}"
    assert image.endswith(f":{VERSION}")
    trees = (VALUES, JOB)
    assert {value for tree in trees for path, value in leaves(tree) if path[-1] == "image"} == {
        image
    }
    assert f"FROM apache/airflow:{VALUES['airflowVersion']}-python3.11" in DOCKERFILE
    assert image in PAGE


def test_what_is_secret_comes_from_secrets_that_the_page_makes() -> None:
    used = {(entry["secretName"], entry["secretKey"]) for entry in VALUES["secret"]}
    for variable in INIT["env"]:
        if reference := variable.get("valueFrom", {}).get("secretKeyRef"):
            used.add((reference["name"], reference["key"]))
    used |= {("airflow", key) for key in ("fernet-key", "jwt-secret", "api-secret-key")}
    used.add(("airflow", "passwords.json"))
    made = {
        (secret["metadata"]["name"], key)
        for block in re.findall(r"<<SECRETS\n(.*?)\nSECRETS\n", PAGE, re.DOTALL)
        for secret in yaml.safe_load_all(block)
        for key in secret["stringData"]
    }
    assert used == made
    # The chart would also take each of them as it is.
    assert not VALUES.keys() & {"fernetKey", "jwtSecret", "apiSecretKey", "extraSecrets"}
    assert VALUES["data"] == {"metadataSecretName": "airflow"}


def test_the_job_is_told_what_tasks_are_told_of_the_lake() -> None:
    of_tasks = {
        entry["envName"]: (entry["secretName"], entry["secretKey"]) for entry in VALUES["secret"]
    }
    of_tasks.pop("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC")
    references = {
        variable["name"]: variable["valueFrom"]["secretKeyRef"]
        for variable in INIT["env"]
        if "valueFrom" in variable
    }
    assert {name: (r["name"], r["key"]) for name, r in references.items()} == of_tasks
    path = {entry["name"]: entry["value"] for entry in VALUES["env"]}["MELTLINE_CONFIG"]
    assert {"name": "MELTLINE_CONFIG", "value": path} in INIT["env"]
    assert INIT["volumeMounts"] == VALUES["volumeMounts"]
    assert POD["volumes"] == VALUES["volumes"]
    assert INIT["command"] == ["meltline", "init"]
    assert VALUES["volumeMounts"][0]["mountPath"] == path


def test_the_pages_of_gates_lie_beside_the_configuration_on_the_claim() -> None:
    (volume,) = VALUES["scheduler"]["extraVolumes"]
    assert volume["persistentVolumeClaim"]["claimName"] == CLAIM["metadata"]["name"]
    (mount,) = VALUES["scheduler"]["extraVolumeMounts"]
    folder = VALUES["volumeMounts"][0]["mountPath"].replace("meltline.yaml", "meltline-docs")
    assert mount == {"name": volume["name"], "mountPath": folder}
    assert folder in DOCKERFILE


def test_nothing_runs_as_root_or_without_a_limit() -> None:
    assert POD["securityContext"]["runAsUser"] == 50000
    assert "ARG AIRFLOW_USER=50000" in DOCKERFILE
    for component in ("apiServer", "scheduler", "dagProcessor", "triggerer"):
        assert VALUES[component]["resources"]["limits"]["memory"]
    assert INIT["resources"]["limits"]["memory"]
