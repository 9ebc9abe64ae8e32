"""The image: built without a daemon, small, and one mail goes its whole way through it."""

import json
import os
import re
import shutil
import signal
import subprocess
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes.person import Person, request
from tests.support.processes.programs import PROJECT, until
from tests.support.servers.sandbox import ADA, MIRA, SandboxServer
from tests.support.servers.services import Postgres, free_port

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(
        os.geteuid() != 0 or not shutil.which("apt-get"),
        reason="needs root, and Debian's packages for the base",
    ),
]
NAME, MOST_BYTES, USER = "localhost/mailhub-test", 450_000_000, 10001
SUBJECT = "From the image"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Build the images into a store of their own, and yield the variables that name it."""
    folder = tmp_path_factory.mktemp("images")
    config = folder / "storage.conf"
    config.write_text(
        f'[storage]\ndriver = "overlay"\ngraphroot = "{folder}/store"\nrunroot = "{folder}/run"\n'
    )
    variables = os.environ | {"CONTAINERS_STORAGE_CONF": str(config)}
    try:
        subprocess.run([PROJECT / "bin/image", NAME], env=variables, check=True)
        yield variables
    finally:
        subprocess.run(["buildah", "rm", "--all"], env=variables, check=False)
        subprocess.run(["buildah", "rmi", "--all", "--force"], env=variables, check=False)


class Container:
    """A container of an image that runs commands as the image's user, on this machine's network."""

    def __init__(self, engine: dict[str, str], image: str, home: Path, **settings: str) -> None:
        self._engine = engine
        self.id = self._buildah("from", "--pull-never", image).strip()
        self._options = [
            "--isolation=chroot",
            f"--volume={home}:/data",
            *(f"--env={name}={value}" for name, value in settings.items()),
        ]

    def run(self, *command: str, given: str = "") -> str:
        return self._buildah("run", *self._options, self.id, "--", *command, given=given)

    @contextmanager
    def running(self, *command: str) -> Iterator[None]:
        """Run a command for as long as the block lasts."""
        process = subprocess.Popen(
            ["buildah", "run", *self._options, self.id, "--", *command],
            env=self._engine,
            start_new_session=True,
        )
        try:
            yield
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(60)

    def _buildah(self, *arguments: str, given: str = "") -> str:
        done = subprocess.run(
            ["buildah", *arguments],
            env=self._engine,
            input=given,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return done.stdout


def about(engine: dict[str, str], image: str) -> dict[str, Any]:
    """Return what the image says about itself, as Docker reads it."""
    told = subprocess.run(
        ["buildah", "inspect", "--type", "image", image],
        env=engine,
        capture_output=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(told.stdout)["Docker"]
    return found


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    os.chown(folder, USER, USER)
    return folder


def test_image_is_small_and_describes_itself(engine: dict[str, str]) -> None:
    listed = subprocess.run(
        ["buildah", "images", "--json", NAME], env=engine, capture_output=True, check=True
    )
    (image,) = json.loads(listed.stdout)
    number, unit = re.fullmatch(r"([\d.]+) ([MG])B", image["size"]).groups()  # type: ignore[union-attr]
    assert float(number) * {"M": 1e6, "G": 1e9}[unit] <= MOST_BYTES
    config = about(engine, NAME)["config"]
    assert config["User"] == f"{USER}:{USER}"
    assert config["Healthcheck"]["Test"][:2] == ["CMD", "python"]
    assert {"title", "description", "version"} <= {
        label.removeprefix("org.opencontainers.image.") for label in config["Labels"]
    }


def test_image_holds_only_what_it_runs(engine: dict[str, str], home: Path) -> None:
    find = (
        "import importlib.util as u, shutil;"
        "names = ('pip', 'langchain_core', 'pymap', 'mailhub.first_run.prepare', 'tests');"
        "print([n for n in names if u.find_spec(n)],"
        "shutil.which('pip'))"
    )
    app = Container(engine, NAME, home)
    assert app.run("python", "-c", find).strip() == "[] None"
    stream = Container(engine, f"{NAME}-stream", home)
    assert stream.run("python", "-c", find).strip() == "['langchain_core'] None"
    keys = "SECRET_KEY=ssssssssssssssssssssssssssssssssssssssss"
    chat = "import django; django.setup(); import mailhub.agent.answering"
    key = b64encode(b"k" * 32).decode()
    stream.run(
        *("env", keys, f"MAILHUB_ENCRYPTION_KEYS={key}", "DJANGO_SETTINGS_MODULE=mailhub.settings"),
        *("python", "-c", chat),
    )


def test_approved_mail_leaves_from_the_image(engine: dict[str, str], home: Path) -> None:
    port = free_port()
    url = f"http://localhost:{port}"
    with Postgres() as database, SandboxServer() as mail:
        imap, smtp = (f"127.0.0.1:{each}" for each in (mail.state.imap_port, mail.state.smtp_port))
        container = Container(
            engine,
            NAME,
            home,
            DATABASE_URL=database.url,
            SECRET_KEY="s" * 40,
            MAILHUB_ENCRYPTION_KEYS=b64encode(b"k" * 32).decode(),
            MAILHUB_PUBLIC_URL=url,
            MAILHUB_LOOPBACK_SERVERS=f"{imap},{smtp}",
        )

        def manage(*command: str, given: str = "") -> str:
            return container.run("python", "manage.py", *command, given=given).strip()

        manage("migrate", "--noinput")
        manage("create_user", "--email", ADA)
        manage(
            *("connect_mailbox", "imap", "--imap", f"{imap}:plain", "--smtp", f"{smtp}:plain"),
            *("--address", ADA, "--owner", ADA, "--password-stdin"),
            given=mail.access(ADA).password,
        )
        token = manage(
            *("create_token", "--user", ADA, "--name", "program", "--mailboxes", ADA),
            *("--scopes", "mail:read,mail:draft,mail:propose"),
        ).split()[-1]
        link = re.search(r"http\S+", manage("sign_in_link", "--user", ADA))
        assert link

        config = about(engine, NAME)["config"]
        web = [part.replace("8000", str(port)) for part in config["Cmd"]]
        check = [part.replace(":8000", f":{port}") for part in config["Healthcheck"]["Test"][1:]]
        with container.running(*web), container.running("python", "manage.py", "worker"):
            until(lambda: answers(f"{url}/statusz"))
            container.run(*check)
            proposed = request(
                f"{url}/api/v1/tools/send_email",
                "POST",
                body=json.dumps(
                    {"to": [MIRA], "subject": SUBJECT, "body": "Hello.", "confirm": True}
                ).encode(),
                headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
            )
            assert proposed.status == 202, proposed.text
            assert arrived(mail) == []
            person = Person(url)
            assert person.submit(link[0], "sign-in").status == 302
            decided = person.submit(proposed.json()["action"]["review_url"], "approve")
            assert decided.status == 302, decided.text
            (sent,) = until(lambda: arrived(mail))
    assert b"From: ada@lovelace.example" in sent


def arrived(mail: SandboxServer) -> list[bytes]:
    return [each for each in mail.messages(MIRA, "INBOX") if f"Subject: {SUBJECT}".encode() in each]


def answers(url: str) -> bool:
    try:
        return request(url).status == 200
    except OSError:
        return False
