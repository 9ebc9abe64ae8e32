"""The page of the REST documentation: complete, and its examples run as pasted."""

import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from django.conf import settings
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.test.client import BOUNDARY, MULTIPART_CONTENT, encode_multipart
from django.urls import reverse

from tests.conftest import Api
from tests.support.documented import check_answer
from tools.surfaces.openapi.document import build_document
from tools.surfaces.openapi.page import list_subjects

pytestmark = pytest.mark.django_db
PAGE = "/api/v1/docs"
SHOWN = {
    operation["id"]: operation
    for subject in list_subjects(settings.MAILHUB_PUBLIC_URL)
    for operation in subject["operations"]
}


def documented() -> Iterator[tuple[str, str, Any]]:
    for path, item in build_document()["paths"].items():
        for method, operation in item.items():
            yield method, path, operation


def test_contents_link_to_every_operation_once(client: Client) -> None:
    page = client.get(PAGE).content.decode()
    contents = page[page.index('<nav class="card contents"') :].partition("</nav>")[0]
    linked = re.findall(r'href="#(\w+)"', contents)
    assert sorted(linked) == sorted(operation["operationId"] for *_, operation in documented())
    for target in re.findall(r'href="#([\w-]+)"', contents):
        assert page.count(f'id="{target}"') == 1
    for method, path, _ in documented():
        assert f"<code>{method.upper()} {path}</code>" in page


def test_stranger_is_offered_a_sign_in(client: Client) -> None:
    page = client.get(PAGE).content.decode()
    assert f'href="{reverse("sign_in")}"' in page
    assert "AnonymousUser" not in page


def test_page_has_no_inline_script_or_style(client: Client) -> None:
    page = client.get(PAGE).content.decode()
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", page)


def test_every_operation_marks_what_is_required() -> None:
    send = {row["name"]: row for row in SHOWN["send_email"]["parameters"]}
    assert {name for name, row in send.items() if row["required"]} == {"to", "subject", "body"}
    assert send["attachments[].handle"]["place"] == "body"
    assert send["importance"]["type"] == "low, normal, high"
    assert [row["required"] for row in SHOWN["actions_cancel"]["parameters"]] == [True, False]
    assert SHOWN["attachments_upload"]["parameters"][0]["name"] == "file"


def test_every_operation_shows_its_errors_and_an_answer() -> None:
    for *_, operation in documented():
        shown, promised = SHOWN[operation["operationId"]], operation["responses"]
        assert {each["status"] for each in shown["answers"] + shown["errors"]} == set(promised)
        assert all(each["code"] and each["to_do"] for each in shown["errors"])
        has_body = bool({"200", "201", "202"} & set(promised))
        assert has_body == any(each["examples"] for each in shown["answers"])


def test_every_example_request_is_valid_as_pasted(api: Api) -> None:
    """An example may name a mail that does not exist, but its parameters are never refused."""
    for name, shown in SHOWN.items():
        method, path, headers, body = read_command(shown["request"], api.secret)
        kind = headers.pop("Content-Type", "text/plain")
        answer = Client().generic(method, path, body, content_type=kind, headers=headers)
        check_answer(method.lower(), path, answer)
        assert answer.status_code not in (400, 401, 405, 413, 415), name
        refused = answer.json().get("errors", []) if answer.status_code == 422 else []
        # No host of this name can be looked up here.
        assert {each["field"] for each in refused} <= {"url"}, (name, refused)


def read_command(command: str, secret: str) -> tuple[str, str, dict[str, str], bytes]:
    """Return method, path, headers and body of a request with curl, as a shell would read it."""
    words = shlex.split(command.replace("$MAILHUB_TOKEN", secret).partition("curl ")[2])
    address = next(word for word in words if word.startswith(settings.MAILHUB_PUBLIC_URL))
    options = [pair for pair in pairwise(words) if pair[0].startswith("-")]
    given = dict(options)
    headers = dict(value.split(": ") for option, value in options if option == "-H")
    body = given.get("-d", "").encode()
    if "-F" in given:
        assert given["-F"] == "file=@plan.txt"
        file = SimpleUploadedFile("plan.txt", b"The plan")
        headers["Content-Type"] = MULTIPART_CONTENT
        body = encode_multipart(BOUNDARY, {"file": file})
    return given["-X"], address.removeprefix(settings.MAILHUB_PUBLIC_URL), headers, body
