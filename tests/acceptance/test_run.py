"""`manage.py run`: its preparations, restarts and shutdown; and the other commands."""

import os
import signal
import socket
import stat
from pathlib import Path

import pytest

from mailhub.first_run.supervisor import Supervisor
from mailhub.management.commands.run import Command
from tests.support.processes.mailhub import Mailhub
from tests.support.processes.person import request
from tests.support.processes.proc import proc
from tests.support.processes.programs import END_SECONDS, Program, manage, session_of, until
from tests.support.servers.sandbox import reserve_ports
from tests.support.servers.services import free_port

pytestmark = pytest.mark.process
MIRA, CHARLES = "mira@northwind.example", "charles@lovelace.example"


def loading(mailhub: Mailhub, child: str) -> bool:
    """Return True if a child has begun to import its modules."""
    pid = mailhub.children().get(child)
    return pid is not None and "pydantic_core" in proc(pid, "maps").read_text()


def test_credentials_file_is_readable_only_by_its_owner(mailhub: Mailhub) -> None:
    sandbox = mailhub.sandbox
    assert stat.S_IMODE((mailhub.home / "sandbox.json").stat().st_mode) == 0o600
    assert stat.S_IMODE(mailhub.home.stat().st_mode) & 0o077 == 0
    assert set(sandbox) == {
        "url",
        "user",
        "sign_in_url",
        "api_token",
        "mailbox",
        "imap",
        "smtp",
        "others",
    }
    assert set(sandbox["imap"]) == {"host", "port", "user", "password"}
    assert set(sandbox["smtp"]) == {"host", "port"}
    assert [other["address"] for other in sandbox["others"]] == [CHARLES, MIRA]
    assert [set(other["imap"]) for other in sandbox["others"]] == [set(sandbox["imap"])] * 2
    assert (
        sandbox["user"] == sandbox["mailbox"] == sandbox["imap"]["user"] == "ada@lovelace.example"
    )
    assert sandbox["url"] == mailhub.url
    assert sandbox["sign_in_url"].startswith(f"{mailhub.url}/sign-in/")
    assert sandbox["sign_in_url"] in mailhub.stdout()
    assert str(mailhub.home / "sandbox.json") in mailhub.stdout()


def test_second_start_continues_and_signals_end_both(tmp_path: Path) -> None:
    home, port = tmp_path / "home", free_port()
    reserve_ports(home)
    # The only test that begins without a database, as a person does.
    with Mailhub(home, port=port, fresh=True, MAILHUB_UNDO_SECONDS=0) as mailhub:
        first = mailhub.sandbox  # written before the first 200 of /statusz
        keys = (home / "mailhub.env").read_text()
        action = mailhub.propose("Kept over the night")
        assert mailhub.interrupt() == 0
        assert "Traceback" not in mailhub.log()

    with Mailhub(home, port=port, MAILHUB_UNDO_SECONDS=0) as mailhub:
        second = mailhub.sandbox
        assert (home / "mailhub.env").read_text() == keys
        assert second.pop("sign_in_url") != first.pop("sign_in_url")
        assert second == first
        assert (
            mailhub.person(mailhub.sandbox["sign_in_url"])
            .submit(action["review_url"], "approve")
            .status
            == 302
        )
        assert mailhub.ended(action["id"])["state"] == "succeeded"
        assert len(mailhub.mail(MIRA, "INBOX", "Kept over the night")) == 1

        # SIGTERM to the one process ends the others too, although a client's connection is open.
        with socket.create_connection(("127.0.0.1", port), timeout=10) as kept:
            kept.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert kept.recv(12) == b"HTTP/1.1 200"
            os.kill(mailhub.pid, signal.SIGTERM)
            assert mailhub.wait(END_SECONDS) == 0
        assert "Traceback" not in mailhub.log()


def test_ctrl_c_during_the_start_ends_it_without_a_traceback(tmp_path: Path) -> None:
    mailhub = Mailhub(tmp_path / "home")
    try:
        mailhub.start()
        until(lambda: loading(mailhub, "web"), say=mailhub.log)
        assert mailhub.interrupt() == 0
        assert "Traceback" not in mailhub.log()
    finally:
        mailhub.kill()


class Stopped(Supervisor):
    """A supervisor that has got a signal, without handlers of its own."""

    def __init__(self) -> None:
        self.children, self.stopping = [], True


def test_signal_while_the_sandbox_starts_is_no_error() -> None:
    assert Command()._sandbox(Stopped()) is None


def test_killed_worker_is_restarted_and_web_stays_up(mailhub: Mailhub) -> None:
    before = mailhub.children()
    os.kill(before["worker"], signal.SIGKILL)

    def again() -> bool:
        assert request(f"{mailhub.url}/healthz").status == 200
        return mailhub.children().get("worker", before["worker"]) != before["worker"]

    until(again, say=mailhub.log)
    action = mailhub.propose("After the worker died")
    mailhub.person().submit(action["review_url"], "approve")
    assert mailhub.ended(action["id"])["state"] == "succeeded"
    assert {name: pid for name, pid in mailhub.children().items() if name != "worker"} == {
        name: pid for name, pid in before.items() if name != "worker"
    }


def test_killed_web_server_is_restarted_and_worker_stays_up(mailhub: Mailhub) -> None:
    before = mailhub.children()
    os.kill(before["web"], signal.SIGKILL)
    until(lambda: mailhub.children().get("web", before["web"]) != before["web"], say=mailhub.log)
    mailhub.wait_ready()
    assert mailhub.children()["worker"] == before["worker"]
    assert mailhub.children()["sandbox"] == before["sandbox"]


def test_port_in_use_is_one_line_and_nothing_starts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        program = Program(tmp_path, "run", PORT=port)
        with program:
            assert program.wait() != 0
    (line,) = program.log().splitlines()
    assert str(port) in line
    assert program.stdout() == ""
    assert not (tmp_path / "sandbox.json").exists()


def test_second_mailhub_on_one_home_is_refused(mailhub: Mailhub, tmp_path: Path) -> None:
    files = {name: (mailhub.home / name).read_bytes() for name in ("mailhub.env", "sandbox.json")}
    children = mailhub.children()
    with Program(tmp_path, "run", PORT=free_port(), MAILHUB_HOME=mailhub.home) as second:
        assert second.wait() != 0
    assert len(second.log().splitlines()) == 1, second.log()
    assert second.stdout() == ""
    assert {name: (mailhub.home / name).read_bytes() for name in files} == files
    assert mailhub.children() == children


def test_commands_see_its_data_and_a_kill_ends_its_children(tmp_path: Path) -> None:
    # With a second person, the first one needs a second factor: it is not the shared mailhub.
    with Mailhub(tmp_path / "short-lived") as mailhub:
        commands_see_the_same_data_and_print_only_results(mailhub)
        os.kill(mailhub.pid, signal.SIGKILL)
        until(
            lambda: not session_of(mailhub.pid),
            seconds=END_SECONDS,
            say=lambda: f"{session_of(mailhub.pid)}",
        )


def commands_see_the_same_data_and_print_only_results(mailhub: Mailhub) -> None:
    # The link of a new person signs in at the running server.
    assert (
        manage(
            mailhub.home, "create_user", "--email", CHARLES, "--name", "Charles Babbage"
        ).returncode
        == 0
    )
    (link,) = manage(mailhub.home, "sign_in_link", "--user", CHARLES).stdout.splitlines()
    assert link.startswith(f"{mailhub.url}/sign-in/")
    charles = mailhub.person(link)
    assert "Charles Babbage" in charles.get("/").text

    sandbox = mailhub.sandbox
    mail_servers = [
        f"--imap={sandbox['imap']['host']}:{sandbox['imap']['port']}:plain",
        f"--smtp={sandbox['smtp']['host']}:{sandbox['smtp']['port']}:plain",
    ]
    connect = [
        "connect_mailbox",
        "imap",
        "--address",
        CHARLES,
        "--owner",
        CHARLES,
        *mail_servers,
        "--password-stdin",
    ]
    password = sandbox["others"][0]["imap"]["password"]

    wrong = manage(mailhub.home, *connect, stdin=f"{password}x\n")
    assert (wrong.returncode != 0, wrong.stdout) == (True, "")
    assert "imap_login" in wrong.stderr
    assert len(wrong.stderr.splitlines()) == 1
    closed = manage(
        mailhub.home, *connect, stdin=f"{password}\n", MAILHUB_LOOPBACK_SERVERS="127.0.0.1:9"
    )
    assert (closed.returncode != 0, closed.stdout) == (True, "")
    assert len(closed.stderr.splitlines()) == 1
    assert "No mailbox is connected yet" in charles.get("/mailboxes/").text

    connected = manage(mailhub.home, *connect, stdin=f"{password}\n")
    assert (connected.returncode, connected.stderr) == (0, "")
    (mailbox_id,) = connected.stdout.splitlines()
    token = [
        "create_token",
        "--user",
        CHARLES,
        "--name",
        "t",
        "--scopes",
        "mail:read",
        "--mailboxes",
        CHARLES,
    ]
    (secret,) = manage(mailhub.home, *token).stdout.splitlines()
    (seen,) = mailhub.rest("GET", "/mailboxes", Authorization=f"Bearer {secret}").json()[
        "mailboxes"
    ]
    assert (seen["id"], seen["address"]) == (mailbox_id, CHARLES)
