"""The files that a browser loads for a page: compressed, and not again."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest
from django.core.management import call_command
from django.test import Client

ADDRESS = re.compile(r'(?:href|src)="(/static/[^"]+)"')
IMPORTED = re.compile(r'from "(\./[^"]+)"')


@pytest.fixture
def collected(settings: Any, tmp_path: Path) -> Client:
    """Return a browser of a deployment, which has run collectstatic."""
    deploy(settings, tmp_path)
    # The pages of the admin site are not tried here, and compressing its files takes seconds.
    call_command("collectstatic", interactive=False, verbosity=0, ignore_patterns=["admin"])
    return Client(headers={"Accept-Encoding": "gzip, br"})


def deploy(settings: Any, folder: Path) -> None:
    settings.STATIC_ROOT = str(folder)
    settings.STORAGES = {"staticfiles": {"BACKEND": "mailhub.static_files.HashedFiles"}}
    settings.WHITENOISE_AUTOREFRESH = False


def fetch(browser: Client, address: str) -> tuple[Any, bytes]:
    answer = browser.get(address)
    return answer, b"".join(answer)


@pytest.mark.django_db
def test_page_and_its_files_are_compressed(collected: Client) -> None:
    plain = Client()
    assert fetch(collected, "/sign-in/")[0]["Content-Encoding"] == "gzip"
    waiting = set(ADDRESS.findall(fetch(plain, "/sign-in/")[1].decode()))
    seen = set[str]()
    while waiting:
        address = waiting.pop()
        seen.add(address)
        answer, _ = fetch(collected, address)
        assert "immutable" in answer["Cache-Control"], address
        content = fetch(plain, address)[1]
        if address.endswith((".css", ".js")) and len(content) > 400:
            assert answer["Content-Encoding"] == "br", address
        imported = IMPORTED.findall(content.decode("latin-1"))
        waiting |= {urljoin(address, each) for each in imported} - seen
    assert sum(each.endswith(".js") for each in seen) > 10


@pytest.mark.django_db
@pytest.mark.parametrize("deployed", [False, True])
def test_page_needs_no_step_for_its_files(deployed: bool, settings: Any, tmp_path: Path) -> None:
    if deployed:  # but collectstatic was forgotten, or the disk was lost
        deploy(settings, tmp_path)
    address = ADDRESS.findall(fetch(Client(), "/sign-in/")[1].decode())[0]
    assert fetch(Client(), address)[0].status_code == 200
