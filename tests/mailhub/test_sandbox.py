"""The sandbox as its clients see it: a process that is reached by IMAP and SMTP only."""

from __future__ import annotations

import imaplib
import os
import select
import signal
import smtplib
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email import message_from_bytes
from email.policy import SMTP
from pathlib import Path

import pytest
from imapclient import IMAPClient
from imapclient.exceptions import LoginError

from mailhub.sandbox.server import Sandbox, load_state
from mailhub.sandbox.state import LoopbackServers

PROJECT = Path(__file__).resolve().parents[2]
SECONDS = 60
LETTER = (
    b"From: =?utf-8?q?Zo=C3=AB?= <zoe@atelier-zoe.example>\r\nTo: ada@lovelace.example\r\n"
    b"Subject:  two  spaces \r\n\tand a fold\r\nMessage-ID: <letter@atelier-zoe.example>\r\nX-Odd:tight\r\n\r\n"
    b"From here\r\n.dot\r\n\xe6\x97\xa5\xe6\x9c\xac\r\n\r\nno line end"
)

# The child's main without `manage.py`; it writes to the pipe when `ready` is called.
CHILD = """
import os, sys
from pathlib import Path
from mailhub.sandbox.server import run
sys.exit(run(Path(sys.argv[1]), ready=lambda sandbox: os.write(int(sys.argv[2]), b"ready")))
"""


@contextmanager
def running(home: Path) -> Iterator[tuple[subprocess.Popen[bytes], Sandbox]]:
    reading, writing = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(home), str(writing)],
        cwd=PROJECT,
        pass_fds=[writing],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    os.close(writing)
    try:
        assert select.select([reading], [], [], SECONDS)[0], "not ready in time"
        assert os.read(reading, 16) == b"ready"
        sandbox = load_state(home)
        assert sandbox is not None
        yield process, sandbox
    finally:
        os.close(reading)
        process.kill()
        output, _ = process.communicate(timeout=SECONDS)
    assert output == b"", "the sandbox is quiet"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def sandbox(home: Path) -> Iterator[Sandbox]:
    with running(home) as (_, sandbox):
        yield sandbox


@contextmanager
def connected(sandbox: Sandbox) -> Iterator[IMAPClient]:
    client = IMAPClient(sandbox.host, sandbox.imap_port, ssl=False, timeout=SECONDS)
    try:
        yield client
    finally:
        client.shutdown()


@contextmanager
def signed_in(sandbox: Sandbox, who: int = 0, folder: str = "INBOX") -> Iterator[IMAPClient]:
    with connected(sandbox) as client:
        client.login(sandbox.accounts[who].address, sandbox.accounts[who].password)
        client.select_folder(folder)
        yield client


def send(sandbox: Sandbox, raw: bytes, *recipients: str) -> None:
    with smtplib.SMTP(
        sandbox.host, sandbox.smtp_port, local_hostname="test.example", timeout=SECONDS
    ) as client:
        client.sendmail("zoe@atelier-zoe.example", recipients, raw)


def by_message_id(client: IMAPClient, message_id: str) -> list[int]:
    return list(client.search(["HEADER", "Message-ID", message_id]))


def body(client: IMAPClient, uid: int) -> bytes:
    raw = client.fetch([uid], ["BODY.PEEK[]"])[uid][b"BODY[]"]
    assert isinstance(raw, bytes)
    return raw


def until(condition: Callable[[], bool]) -> None:
    """Poll with a time limit; the calls inside wait for the server, so the loop does not spin."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline


def test_first_start_creates_three_accounts_and_sample_mail(sandbox: Sandbox) -> None:
    assert [account.address for account in sandbox.accounts] == [
        "ada@lovelace.example",
        "charles@lovelace.example",
        "mira@northwind.example",
    ]
    for who in range(3):
        with signed_in(sandbox, who) as client:
            assert {name for _, _, name in client.list_folders()} == {"INBOX", "Sent", "Drafts"}
    with signed_in(sandbox) as client:
        assert len(client.search()) == 14
        assert client.search(["UNSEEN"])
        assert client.search(["SUBJECT", "日本語"], "UTF-8")
        (report,) = client.search(["FROM", "desk@roadassist.example"])
        (attachment,) = message_from_bytes(body(client, report), policy=SMTP).iter_attachments()
        assert attachment.get_content_type() == "application/pdf"
        assert attachment.get_content().startswith(b"%PDF-")


def test_sample_mail_knows_mira_but_not_the_insurer(sandbox: Sandbox) -> None:
    with signed_in(sandbox, folder="Sent") as client:
        assert client.search(["TO", "mira@northwind.example"])
        assert not client.search(["TO", "claims@insura.example"])


def test_replies_in_the_sample_mail_have_an_original(sandbox: Sandbox) -> None:
    messages = []
    for folder in ("INBOX", "Sent"):
        with signed_in(sandbox, folder=folder) as client:
            messages += [
                message_from_bytes(body(client, uid), policy=SMTP) for uid in client.search()
            ]
    known = {message["Message-ID"] for message in messages}
    answers = [message for message in messages if message["In-Reply-To"]]
    assert answers
    for answer in answers:
        references = answer["References"].split()
        assert references[-1] == answer["In-Reply-To"]
        assert known.issuperset(references)


def test_smtp_mail_arrives_once_in_each_inbox_unchanged(sandbox: Sandbox) -> None:
    send(
        sandbox, LETTER, "ada@lovelace.example", "ADA@lovelace.example", "charles@lovelace.example"
    )
    for who, expected in ((0, 1), (1, 1), (2, 0)):
        with signed_in(sandbox, who) as client:
            found = by_message_id(client, "<letter@atelier-zoe.example>")
            assert len(found) == expected
            for uid in found:
                # SMTP ends a message with a line end, which the letter lacks.
                before, content = body(client, uid).split(LETTER)
                assert content == b"\r\n"
                assert [
                    line.split(b":")[0]
                    for line in before.splitlines()
                    if not line.startswith(b"\t")
                ] == [
                    b"Return-Path",
                    b"Delivered-To",
                    b"Received",
                ]


def test_unknown_recipient_is_refused_and_nobody_gets_mail(sandbox: Sandbox) -> None:
    with pytest.raises(smtplib.SMTPRecipientsRefused) as refused:
        send(sandbox, LETTER, "stranger@lovelace.example")
    code, text = refused.value.recipients["stranger@lovelace.example"]
    assert (code, text[:5]) == (550, b"5.1.1")


def test_message_over_the_size_limit_is_refused_early(sandbox: Sandbox) -> None:
    with smtplib.SMTP(
        sandbox.host, sandbox.smtp_port, local_hostname="test.example", timeout=SECONDS
    ) as client:
        client.ehlo()
        assert client.esmtp_features["size"] == str(35 * 1024 * 1024)
        code, _ = client.mail("zoe@atelier-zoe.example", ["SIZE=40000000"])
        assert code == 552


def test_appended_copy_is_found_in_sent_by_its_message_id(sandbox: Sandbox) -> None:
    with signed_in(sandbox, folder="Sent") as client:
        answer = client.append("Sent", LETTER, [b"\\Seen", b"$Forwarded"])
        (uid,) = by_message_id(client, "<letter@atelier-zoe.example>")
        assert f"APPENDUID {client.folder_status('Sent')[b'UIDVALIDITY']} {uid}]".encode() in answer
        assert body(client, uid) == LETTER
        assert {b"\\Seen", b"$Forwarded"} <= set(client.get_flags([uid])[uid])
    with signed_in(sandbox) as client:
        assert by_message_id(client, "<letter@atelier-zoe.example>") == []


def test_uid_expunge_removes_a_message_and_its_uid_for_good(sandbox: Sandbox) -> None:
    with signed_in(sandbox, folder="Drafts") as client:
        client.append("Drafts", LETTER, [b"\\Draft"])
        (first,) = client.search()
        client.add_flags([first], [b"\\Deleted"])
        client.uid_expunge([first])
        assert client.search() == []
        client.append("Drafts", LETTER)
        assert client.search() == [first + 1]


def test_moved_mail_is_in_the_other_folder_only(sandbox: Sandbox) -> None:
    with signed_in(sandbox) as client:
        first, *others = client.search()
        raw = body(client, first)
        client.move([first], "Drafts")
        assert client.search() == others
        assert "Drafts" in [name for *_, name in client.list_sub_folders()]
        client.select_folder("Drafts")
        assert raw in [body(client, uid) for uid in client.search()]


def test_open_connection_sees_new_mail_by_noop_and_idle(sandbox: Sandbox) -> None:
    with signed_in(sandbox) as asking, signed_in(sandbox) as idling:
        idling.idle()
        send(sandbox, LETTER, "ada@lovelace.example")
        seen: list[object] = []

        def told() -> bool:
            seen.extend(idling.idle_check(timeout=1))
            return (15, b"EXISTS") in seen

        until(told)
        idling.idle_done()
        asking.noop()
        assert len(by_message_id(asking, "<letter@atelier-zoe.example>")) == 1


def test_parts_are_described_and_fetched_one_by_one(sandbox: Sandbox) -> None:
    with signed_in(sandbox) as client:
        (uid,) = client.search(["FROM", "desk@roadassist.example"])
        found = client.fetch(
            [uid], ["BODYSTRUCTURE", "BODY.PEEK[1]", "BODY.PEEK[2]", "BODY.PEEK[HEADER]", "FLAGS"]
        )[uid]
        _, pdf = found[b"BODYSTRUCTURE"][0]
        assert pdf[:2] == (b"application", b"pdf")
        assert pdf[6] == len(found[b"BODY[2]"])
        assert pdf[8] == (b"attachment", (b"filename", b"accident-report-4471.pdf"))
        assert b"canal" in found[b"BODY[1]"]
        assert b"\r\nSubject: Accident report" in found[b"BODY[HEADER]"]
        assert b"\\Seen" not in found[b"FLAGS"]


def test_broken_headers_do_not_end_the_connection(sandbox: Sandbox) -> None:
    broken = (
        'From: Zoë <z@x.example>\r\nDate: rubbish\r\nTo: broken <\r\nCc: "open\r\n'
        'Content-Type: text/plain; charset="utf-8\r\n\r\nhello'
    ).encode()
    with signed_in(sandbox, folder="Drafts") as client:
        client.append("Drafts", broken)
        (uid,) = client.search()
        envelope = client.fetch([uid], ["ENVELOPE", "BODYSTRUCTURE"])[uid][b"ENVELOPE"]
        assert envelope.from_[0].name == "Zoë".encode()
        assert client.search(["TEXT", "hello"]) == [uid]


def test_wrong_password_and_unknown_name_are_refused(sandbox: Sandbox) -> None:
    for name in ("ada@lovelace.example", "stranger@lovelace.example"):
        with connected(sandbox) as client, pytest.raises(LoginError):
            client.login(name, "wrong")


def test_restart_keeps_ports_passwords_mail_and_uids(home: Path) -> None:
    with running(home) as (_, first):
        send(first, LETTER, "ada@lovelace.example")
        with signed_in(first) as client:
            uids = client.search()
            validity = client.folder_status("INBOX")[b"UIDVALIDITY"]
    assert (home / "sandbox" / "state.json").stat().st_mode & 0o777 == 0o600
    # The process was killed just now: no confirmed message may depend on a clean end.
    with running(home) as (_, second), signed_in(second) as client:
        assert second == first
        assert client.search() == uids
        assert client.folder_status("INBOX")[b"UIDVALIDITY"] == validity


def test_only_its_two_ports_pass_the_host_filter(home: Path, sandbox: Sandbox) -> None:
    servers = LoopbackServers(home, ["sandbox", "127.0.0.1:1143"])
    for port in (sandbox.imap_port, sandbox.smtp_port, 1143):
        assert f"127.0.0.1:{port}" in servers
    assert f"127.0.0.1:{max(sandbox.imap_port, sandbox.smtp_port) + 1}" not in servers
    assert f"127.0.0.1:{sandbox.imap_port}" not in LoopbackServers(home, ["127.0.0.1:1143"])


def test_port_taken_at_the_next_start_is_replaced(home: Path) -> None:
    with running(home) as (process, first):
        process.terminate()
        process.wait(timeout=SECONDS)
    with (
        socket.create_server((first.host, first.imap_port)),
        running(home) as (_, second),
        signed_in(second) as client,
    ):
        assert second.imap_port != first.imap_port
        assert second.smtp_port == first.smtp_port
        assert len(client.search()) == 14


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_it_before_its_clients_leave(home: Path, number: signal.Signals) -> None:
    with running(home) as (process, sandbox), signed_in(sandbox) as idling, signed_in(sandbox):
        idling.idle()
        with smtplib.SMTP(
            sandbox.host, sandbox.smtp_port, local_hostname="test.example", timeout=SECONDS
        ):
            process.send_signal(number)
            assert process.wait(timeout=SECONDS) == 0
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((sandbox.host, sandbox.imap_port), timeout=SECONDS)


def test_second_sandbox_on_the_same_home_is_refused(home: Path, sandbox: Sandbox) -> None:
    second = subprocess.run(
        [sys.executable, "-m", "mailhub.sandbox", str(home)],
        cwd=PROJECT,
        capture_output=True,
        check=False,
        timeout=SECONDS,
    )
    assert second.returncode == 1
    assert second.stderr == b"Another sandbox is running on this home.\n"


def test_plain_imaplib_can_sign_in(sandbox: Sandbox) -> None:
    with imaplib.IMAP4(sandbox.host, sandbox.imap_port, timeout=SECONDS) as client:
        client.login(sandbox.accounts[0].address, sandbox.accounts[0].password)
        assert client.select("Sent")[0] == "OK"
