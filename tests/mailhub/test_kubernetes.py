"""The base for Kubernetes: its schemas accept it, and it says the same as compose file and units."""

import re
import shutil
import subprocess
from typing import Any

import pytest
import yaml
from django.test import Client
from kubernetes_validate.utils import ValidationError, validate

from accounts.infra.safe_hosts import MAIL_PORTS
from approvals.outbound.webhooks.subscriptions import PORTS
from mailhub.environment import Environment
from tests.support.processes.programs import PROJECT

FOLDER = PROJECT / "deploy" / "kubernetes"
BASE: dict[str, Any] = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
DOCUMENTS: list[dict[str, Any]] = [
    document
    for name in BASE["resources"]
    for document in yaml.safe_load_all((FOLDER / name).read_text())
]
COMPOSE: dict[str, Any] = yaml.safe_load((PROJECT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = {
    name: service
    for name, service in COMPOSE["services"].items()
    if service["image"].startswith("mailhub")
}
PODS: dict[str, dict[str, Any]] = {
    document["metadata"]["name"]: document["spec"]["template"]
    for document in DOCUMENTS
    if document["kind"] in ("Deployment", "Job")
}
SETTINGS = dict(line.split("=", 1) for line in BASE["configMapGenerator"][0]["literals"])
SECRETS = "/run/secrets/mailhub"
static = pytest.mark.static


def of_kind(kind: str) -> dict[str, Any]:
    """Return the specifications of all documents of a kind, by name."""
    found = [document for document in DOCUMENTS if document["kind"] == kind]
    return {document["metadata"]["name"]: document["spec"] for document in found}


def containers(name: str) -> list[dict[str, Any]]:
    """Return the containers of a pod, the one of the service first."""
    return [*PODS[name]["spec"]["containers"], *PODS[name]["spec"].get("initContainers", ())]


@static
@pytest.mark.parametrize("version", ["1.30", "1.37"])
def test_kubernetes_knows_every_member(version: str) -> None:
    for document in DOCUMENTS:
        validate(document, version, strict=True)
    with pytest.raises(ValidationError):
        validate(DOCUMENTS[0] | {"specs": {}}, version, strict=True)


@static
def test_services_are_those_of_compose_file_and_units() -> None:
    units = {path.stem for path in (PROJECT / "deploy" / "systemd").glob("mailhub-*.service")}
    assert PODS.keys() == SERVICES.keys()
    assert {f"mailhub-{name}" for name in PODS} == units - {"mailhub-backup"}


@static
@pytest.mark.parametrize("name", PODS)
def test_pod_runs_what_the_compose_file_runs(name: str) -> None:
    pod, service = PODS[name]["spec"], SERVICES[name]
    (container,) = pod["containers"]
    assert [container[key] for key in ("name", "image", "command")] == [
        name,
        service["image"],
        service["command"],
    ]
    assert container["resources"]["limits"] == {"memory": service["mem_limit"].upper() + "i"}
    assert (
        f"{pod['securityContext']['runAsUser']}:{pod['securityContext']['runAsGroup']}"
        == (service["user"])
    )
    (size,) = re.findall(r"^/tmp:size=(\d+)m", service["tmpfs"][0])
    tmp = {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": f"{size}Mi"}}
    assert tmp in pod["volumes"]
    if "stop_grace_period" in service:
        number, unit = service["stop_grace_period"][:-1], service["stop_grace_period"][-1]
        default = 30  # of Kubernetes
        seconds = pod.get("terminationGracePeriodSeconds", default)
        assert seconds == int(number) * {"s": 1, "m": 60}[unit]


@static
@pytest.mark.parametrize("name", PODS)
def test_pod_has_no_rights_and_writes_only_as_told(name: str) -> None:
    pod = PODS[name]["spec"]
    same = ("automountServiceAccountToken", "enableServiceLinks", "shareProcessNamespace")
    assert [pod[key] for key in same] == [False, False, True]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["volumes"] == PODS["web"]["spec"]["volumes"]
    for container in containers(name):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["envFrom"] == [{"configMapRef": {"name": "settings"}}]
        assert "env" not in container
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}
    mounts = {each["name"]: each["mountPath"] for each in containers(name)[0]["volumeMounts"]}
    assert mounts == {"home": SETTINGS["MAILHUB_HOME"], "secrets": SECRETS, "tmp": "/tmp"}


@static
@pytest.mark.parametrize("name", sorted(PODS.keys() - {"migrate"}))
def test_pod_waits_for_the_tables_of_its_version(name: str) -> None:
    (waits,) = PODS[name]["spec"]["initContainers"]
    migrate = [part for part in SERVICES["migrate"]["command"] if part != "--noinput"]
    assert waits["command"] == [*migrate, "--check"]
    assert waits["image"] == SERVICES["migrate"]["image"]


@static
def test_pods_share_the_home() -> None:
    (claim,) = of_kind("PersistentVolumeClaim")
    assert {"name": "home", "persistentVolumeClaim": {"claimName": claim}} in (
        PODS["worker"]["spec"]["volumes"]
    )
    assert of_kind("PersistentVolumeClaim")[claim]["accessModes"] == ["ReadWriteMany"]


@static
def test_settings_are_those_that_mailhub_reads() -> None:
    assert SETTINGS.keys() == SERVICES["web"]["environment"].keys()
    for variable, value in SETTINGS.items():
        assert variable.removesuffix("_FILE") in Environment.model_fields
        if variable.endswith("_FILE"):
            secret = value.removeprefix(f"{SECRETS}/")
            assert secret in COMPOSE["secrets"]
            page = (PROJECT / "docs/operate/deploy.md").read_text()
            assert f"--from-file=var/secrets/{secret}" in page
    (mounted,) = (each["secret"] for each in PODS["web"]["spec"]["volumes"] if "secret" in each)
    assert mounted == {"secretName": "mailhub", "defaultMode": 0o440}


@static
def test_images_have_the_version_of_the_dockerfile() -> None:
    version = re.search(
        r'image\.version="([^"]+)"$', (PROJECT / "Dockerfile").read_text(), re.MULTILINE
    )
    assert version
    used = {container["image"] for name in PODS for container in containers(name)}
    assert BASE["images"] == [{"name": name, "newTag": version[1]} for name in sorted(used)]


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["web", "stream"])
def test_server_answers_its_probes(name: str) -> None:
    (container,) = PODS[name]["spec"]["containers"]
    for probe, path in (("readinessProbe", "/readyz"), ("livenessProbe", "/healthz")):
        asked = container[probe]["httpGet"]
        assert asked["path"] == path
        headers = {each["name"]: each["value"] for each in asked["httpHeaders"]}
        assert Client(headers=headers).get(path).status_code == 200
        # The kubelet would name the address of the pod.
        assert Client(headers={"Host": "10.0.0.7:8000"}).get(path).status_code == 400


@static
def test_worker_is_asked_as_in_the_compose_file() -> None:
    (worker,) = PODS["worker"]["spec"]["containers"]
    command = SERVICES["worker"]["healthcheck"]["test"][1:]
    assert worker["readinessProbe"]["exec"]["command"] == command
    # An end of the database must not end the workers.
    assert "livenessProbe" not in worker


@static
def test_paths_lead_to_the_servers_of_the_proxy() -> None:
    caddy = COMPOSE["configs"]["caddyfile"]["content"]
    (listed,) = re.findall(r"@open path (.+)", caddy)
    expected = {path.removesuffix("/*"): "stream" for path in listed.split()} | {"/": "web"}
    (rule,) = of_kind("Ingress")["mailhub"]["rules"]
    backends = {path["path"]: path["backend"]["service"] for path in rule["http"]["paths"]}
    assert {path: backend["name"] for path, backend in backends.items()} == expected
    for name, service in of_kind("Service").items():
        assert service["selector"] == PODS[name]["metadata"]["labels"]
        (port,) = service["ports"]
        assert port["targetPort"] == containers(name)[0]["ports"][0]["name"]
        assert {each["port"]["name"] for each in backends.values()} == {port["name"]}


@static
def test_only_servers_are_called_and_only_known_ports() -> None:
    everything, servers = (of_kind("NetworkPolicy")[name] for name in ("mailhub", "servers"))
    common = everything["podSelector"]["matchLabels"].items()
    assert all(common <= pod["metadata"]["labels"].items() for pod in PODS.values())
    assert everything["policyTypes"] == ["Ingress", "Egress"]
    assert "ingress" not in everything
    (selected,) = servers["podSelector"]["matchExpressions"]
    assert set(selected["values"]) == of_kind("Service").keys()
    inside = [rule for rule in everything["egress"] if "to" not in rule]
    (outside,) = (rule for rule in everything["egress"] if "to" in rule)
    assert {each["port"] for each in outside["ports"]} == MAIL_PORTS | PORTS
    assert {each["port"] for rule in inside for each in rule["ports"]} == {
        *(53, 5432, 6379, 5671, 5672)
    }


@static
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl here")
def test_kustomize_builds_it() -> None:
    done = subprocess.run(
        ["kubectl", "kustomize", FOLDER], capture_output=True, text=True, check=True
    )
    built = list(yaml.safe_load_all(done.stdout))
    assert len(built) == len(DOCUMENTS) + 1
    (settings,) = (each for each in built if each["kind"] == "ConfigMap")
    assert settings["data"] == SETTINGS
    for document in built:
        validate(document, "1.37", strict=True)
        assert document["metadata"]["namespace"] == "mailhub"
    # Each reference has the generated name, and each image its tag.
    total = sum(len(containers(name)) for name in PODS)
    assert done.stdout.count(f"name: {settings['metadata']['name']}") == total + 1
    assert (
        len(re.findall(rf"image: mailhub(-stream)?:{BASE['images'][0]['newTag']}\n", done.stdout))
        == total
    )
