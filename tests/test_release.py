"""`make release` builds what is published, from a clean tree only."""

import hashlib
import json
import os
import subprocess
import tarfile
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest

pytestmark = pytest.mark.static
ROOT = Path(__file__).parent.parent
NEXT = "99.0.0"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a clone of this repository, with this .venv."""
    clone = tmp_path / "tree"
    git(tmp_path, "clone", "--quiet", "--no-tags", str(ROOT), str(clone))
    (clone / ".venv").symlink_to(ROOT / ".venv")
    return clone


def git(folder: Path, *arguments: str) -> str:
    return run(folder, "git", *arguments).stdout.strip()


def run(folder: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    names = {
        f"GIT_{who}_{what}": "tests@mailhub.example"
        for who in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    }
    done = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | names | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    if command[0] == "git":
        assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize(
    ("version", "changed", "says"),
    [
        ("", False, "name the version"),
        ("1.0", False, "name the version"),
        ("0.0.1", False, "is not newer than"),
        (NEXT, True, "the tree has changes"),
    ],
)
def test_release_refuses(tree: Path, version: str, changed: bool, says: str) -> None:
    if changed:
        (tree / "note.txt").write_text("not committed")
    done = run(tree, "bin/release", version, TAG="1")
    assert done.returncode == 1
    assert says in done.stderr
    assert git(tree, "tag") == ""
    assert not (tree / "dist").exists()


@pytest.mark.long
@pytest.mark.timeout(900)
def test_release_builds_what_the_tag_names(tree: Path) -> None:
    before = git(tree, "rev-parse", "HEAD")
    done = run(tree, "bin/release", NEXT)
    assert done.returncode == 0, done.stderr
    assert f"would tag v{NEXT}" in done.stdout
    assert (git(tree, "rev-parse", "HEAD"), git(tree, "tag")) == (before, "")

    done = run(tree, "bin/release", NEXT, TAG="1")
    assert done.returncode == 0, done.stderr
    assert git(tree, "describe") == f"v{NEXT}"
    assert git(tree, "status", "--porcelain") == ""
    assert len(git(tree, "worktree", "list").splitlines()) == 1
    assert tomllib.loads((tree / "pyproject.toml").read_text())["project"]["version"] == NEXT
    kubernetes = (tree / "deploy/kubernetes/kustomization.yaml").read_text()
    assert kubernetes.count(f'newTag: "{NEXT}"') == 2

    dist = tree / "dist"
    assert {each.name for each in dist.iterdir()} == {
        f"mailhub-{NEXT}.tar.gz",
        f"mailhub-{NEXT}.mcpb",
        f"mailhub-{NEXT}.cdx.json",
        f"mailhub-{NEXT}-notes.md",
        f"mailhub_client-{NEXT}-py3-none-any.whl",
        "SHA256SUMS",
    }
    for line in (dist / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split()
        assert hashlib.sha256((dist / name).read_bytes()).hexdigest() == digest
    with tarfile.open(dist / f"mailhub-{NEXT}.tar.gz") as bundle:
        head = bundle.extractfile(f"mailhub-{NEXT}/CHANGELOG.md")
        assert head is not None
        changelog = head.read().decode()
        assert f"mailhub-{NEXT}/NOTICE" in bundle.getnames()
    notes = (dist / f"mailhub-{NEXT}-notes.md").read_text()
    assert notes.startswith("### ")
    assert f"## Unreleased\n\n## {NEXT} - " in changelog
    assert notes in changelog
    assert "\n## " not in notes
    with ZipFile(dist / f"mailhub_client-{NEXT}-py3-none-any.whl") as wheel:
        assert "mailhub_client/py.typed" in wheel.namelist()
    with ZipFile(dist / f"mailhub-{NEXT}.mcpb") as desktop:
        assert json.loads(desktop.read("manifest.json"))["version"] == NEXT
        assert "src/mailhub_client/bridge.py" in desktop.namelist()
    listed = json.loads((dist / f"mailhub-{NEXT}.cdx.json").read_text())
    assert listed["metadata"]["component"]["version"] == NEXT
    assert {each["name"] for each in listed["components"] if each.get("licenses")} >= {
        "Django",
        "psycopg",
    }
