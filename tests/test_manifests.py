"""What users hand to Kubernetes and `ray up`: fields that exist, no key, a token, room to ask."""

import copy
import runpy
import sys
from importlib.metadata import version

import jsonschema
import pytest
import yaml

from tests import crash
from zelo_ray.on_ray.placement import ASKING_BYTES, ASKING_CPUS
from zelo_ray.options import COMMANDS

FOLDER = crash.ROOT / "jobs" / "kubernetes"
GIGABYTES = 2**30


def _fields(required=(), **fields):
    """An object with these fields and no other."""
    return {
        "type": "object",
        "properties": fields,
        "required": list(required),
        "additionalProperties": False,
    }


TEXT, SWITCH, WORDS = {"type": "string"}, {"type": "boolean"}, {"type": "object"}
COUNT = {"type": "integer", "minimum": 0}
QUANTITY = {"type": "string", "pattern": r"^\d+(m|Mi|Gi)?$"}
TEXTS = {"type": "object", "additionalProperties": TEXT}
AMOUNTS = _fields(["cpu", "memory"], cpu=QUANTITY, memory=QUANTITY)
NAME = {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "maxLength": 63}
NAMED = _fields(["name"], name=NAME)


def _list(of):
    return {"type": "array", "items": of, "minItems": 1}


# Of a pod's template (core/v1), what the manifests use.
CONTAINER = _fields(
    ["name", "image", "resources"],
    name=NAME,
    image=TEXT,
    envFrom=_list(_fields(["secretRef"], secretRef=NAMED)),
    resources=_fields(["requests", "limits"], requests=AMOUNTS, limits=AMOUNTS),
    ports=_list(_fields(["containerPort"], name=NAME, containerPort=COUNT)),
)
POD = _fields(["spec"], spec=_fields(["containers"], containers=_list(CONTAINER)))
# Of ray.io/v1, the fields and forms of KubeRay 1.7's reference of its custom resources ("KubeRay
# CRD API reference" in Ray's documentation; the types are in ray-operator/apis/ray/v1), as far as
# the manifests use them. `required` is what those types have without `omitempty`.
CLUSTER = _fields(
    ["headGroupSpec"],
    rayVersion=TEXT,
    authOptions=_fields(mode={"enum": ["disabled", "token"]}, secretName=NAME),
    enableInTreeAutoscaling=SWITCH,
    autoscalerOptions=_fields(
        idleTimeoutSeconds=COUNT,
        upscalingMode={"enum": ["Default", "Aggressive", "Conservative"]},
    ),
    headGroupSpec=_fields(["template"], rayStartParams=TEXTS, template=POD),
    workerGroupSpecs=_list(
        _fields(
            ["groupName", "minReplicas", "maxReplicas", "template"],
            groupName=NAME,
            replicas=COUNT,
            minReplicas=COUNT,
            maxReplicas=COUNT,
            rayStartParams=TEXTS,
            template=POD,
        )
    ),
)
JOB = _fields(
    entrypoint=TEXT,
    runtimeEnvYAML=TEXT,
    backoffLimit=COUNT,
    shutdownAfterJobFinishes=SWITCH,
    ttlSecondsAfterFinished=COUNT,
    rayClusterSpec=CLUSTER,
)
SPECS = {"RayCluster": CLUSTER, "RayJob": JOB}


def schema_of(kind):
    return _fields(
        ["apiVersion", "kind", "metadata", "spec"],
        apiVersion={"const": "ray.io/v1"},
        kind={"const": kind},
        metadata=NAMED,
        spec=SPECS[kind],
    )


@pytest.fixture(params=SPECS)
def manifest(request):
    return yaml.safe_load((FOLDER / f"{request.param.lower()}.yaml").read_text())


def cluster_of(manifest):
    return manifest["spec"].get("rayClusterSpec", manifest["spec"])


def pods_of(manifest):
    cluster = cluster_of(manifest)
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    return [container for group in groups for container in group["template"]["spec"]["containers"]]


def places(node, at=()):
    """The way to each field of a manifest."""
    pairs = enumerate(node) if isinstance(node, list) else node.items()
    for name, value in pairs:
        yield (*at, name)
        if isinstance(value, list | dict):
            yield from places(value, (*at, name))


def test_a_manifest_has_fields_that_kuberay_knows(manifest):
    jsonschema.validate(manifest, schema_of(manifest["kind"]))


def test_a_misspelt_field_anywhere_is_found(manifest):
    """The schema knows each field, not only those at the top."""
    free = ("rayStartParams",)  # its fields are those of `ray start`
    for place in places(manifest):
        if isinstance(place[-1], int) or place[-2:-1] == free:
            continue
        other = copy.deepcopy(manifest)
        inner = other
        for name in place[:-1]:
            inner = inner[name]
        inner[place[-1] + "s"] = inner.pop(place[-1])
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(other, schema_of(manifest["kind"]))


def test_callers_show_a_token_and_keys_come_from_a_secret(manifest):
    assert cluster_of(manifest)["authOptions"] == {"mode": "token"}
    for pod in pods_of(manifest):
        assert pod["envFrom"] == [{"secretRef": {"name": "zelo-ray-keys"}}]
    told = yaml.safe_load(manifest["spec"].get("runtimeEnvYAML", "{}"))
    assert set(told.get("env_vars", ())) <= {"RAY_JOB_STOP_WAIT_TIME_S"}


def test_a_pod_has_room_for_the_actors_that_are_said_to_fit(manifest):
    """Ray counts a pod's limits as its processors and memory; its objects take their part."""
    for pod in pods_of(manifest):
        limits = pod["resources"]["limits"]
        assert pod["resources"]["requests"] == limits
        cpus, memory = int(limits["cpu"]), int(limits["memory"].removesuffix("Gi")) * GIGABYTES
        memory -= int(
            cluster_of(manifest)["headGroupSpec"]["rayStartParams"]["object-store-memory"]
        )
        assert cpus - 1 >= 12 * ASKING_CPUS
        assert memory * 0.9 >= 12 * ASKING_BYTES


def test_the_image_has_the_ray_that_the_manifests_name(manifest):
    named = cluster_of(manifest)["rayVersion"]
    dockerfile = (FOLDER / "Dockerfile").read_text()
    assert f"FROM rayproject/ray:{named}-" in dockerfile
    assert named.split(".")[:2] == version("ray").split(".")[:2]


def test_the_clusters_of_ray_up_ask_for_a_token_too():
    config = yaml.safe_load((crash.ROOT / "cluster.yaml").read_text())
    for node in ("head", "worker"):
        *_, start = config[f"{node}_start_ray_commands"]
        assert "RAY_AUTH_MODE=token" in start.split("ray start")[0]
    assert config["file_mounts"]["~/.ray/auth_token"] == "~/.ray/auth_token"


@pytest.mark.parametrize("path", sorted((crash.ROOT / "jobs").glob("*.py")), ids=lambda p: p.stem)
def test_a_job_is_the_command_of_its_name(path, monkeypatch, capsys):
    command = path.stem.replace("_", "-")
    assert command in COMMANDS
    assert f"jobs/{path.name}" in path.read_text()
    monkeypatch.setattr(sys, "argv", [str(path), "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(path), run_name="__main__")
    assert not ended.value.code
    assert f"zelo-ray {command}" in capsys.readouterr().out
