"""The installed app: its manifest, its service worker and its offline page."""

import json
import re
import struct
from typing import Any
from urllib.parse import urljoin

import pytest
from django.test import Client

from accounts.models import User
from tests.support.people.browser import browser

pytestmark = pytest.mark.django_db
MANIFEST = "/static/mailhub/app/mailhub.webmanifest"


def load(address: str) -> Any:
    answer = Client().get(address)
    assert answer.status_code == 200, address
    return answer, answer.getvalue()


def test_manifest_makes_the_pages_installable(alice: User) -> None:
    page = browser(alice).get("/").content.decode()
    assert f'<link rel="manifest" href="{MANIFEST}">' in page
    answer, body = load(MANIFEST)
    assert answer["Content-Type"].startswith("application/manifest+json")
    manifest = json.loads(body)
    assert (manifest["start_url"], manifest["scope"], manifest["display"]) == (
        "/",
        "/",
        "standalone",
    )
    sizes = set()
    for icon in manifest["icons"]:
        _, picture = load(urljoin(MANIFEST, icon["src"]))
        assert picture.startswith(b"\x89PNG")
        width, height = struct.unpack(">II", picture[16:24])
        assert icon["sizes"] == f"{width}x{height}"
        sizes.add((width, icon.get("purpose", "any")))
    assert sizes == {(192, "any"), (512, "any"), (512, "maskable")}


def test_worker_names_only_files_of_the_shell() -> None:
    answer, body = load("/sw.js")
    assert answer["Content-Type"].startswith("text/javascript")
    found = re.match(r"const SHELL = (\{.*\});\n", body.decode())
    assert found
    shell = json.loads(found[1])
    assert shell["page"] == "/offline/"
    for address in (*shell["files"], shell["icon"], shell["badge"]):
        assert address.startswith("/static/mailhub/")
        load(address)


def test_worker_changes_with_the_language() -> None:
    german = Client().get("/sw.js", headers={"Accept-Language": "de"}).content
    assert german != Client().get("/sw.js", headers={"Accept-Language": "en"}).content


def test_offline_page_is_the_same_for_everybody(alice: User) -> None:
    hers = browser(alice).get("/offline/")
    assert hers.content == Client().get("/offline/").content
    assert b"alice" not in hers.content.lower()
    assert b"<script" not in hers.content
    assert b"<form" not in hers.content


def test_policy_allows_own_workers_and_manifests_only(alice: User) -> None:
    policy = browser(alice).get("/")["Content-Security-Policy"]
    assert "worker-src 'self'" in policy
    assert "manifest-src 'self'" in policy
    assert "default-src 'none'" in policy
