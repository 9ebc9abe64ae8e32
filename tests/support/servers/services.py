"""Private servers for tests: started on a free port with their own data folder, ended with the
block.

    with Postgres() as postgres, Redis() as redis:
        ...  # postgres.url, redis.url

`stop()` and `start()` in between simulate an outage: same address, same data.
"""

import contextlib
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

START_SECONDS = 30
STOP_SECONDS = 20
# The ports for tests end where the kernel's ports for sockets that name none begin. Linux starts
# there (net.ipv4.ip_local_port_range), and other systems start higher.
FIRST_PORT, EPHEMERAL_START = 10_000, 32_768
SLICE = 64
_reserved: list[int] = []


class ServiceError(Exception):
    """A missing server, or one that did not start; the text holds its output."""


class Service:
    """One server process: our child, known by its pid, with a folder that is deleted when it
    ends.
    """

    name: ClassVar[str]
    # The signal that ends this server at once, without waiting for its clients.
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    # None, or the account to run as: some servers refuse root.
    account: pwd.struct_passwd | None = None

    def __init__(self) -> None:
        self.port = free_port()
        self.folder = Path(tempfile.mkdtemp(prefix=f"mailhub-{self.name}-"))
        self._process: subprocess.Popen[bytes] | None = None

    def prepare(self) -> None:
        """Create the files for the first start in `folder`."""

    def command(self) -> Sequence[str | Path]:
        """Return the command line of the server, which must stay in the foreground."""
        raise NotImplementedError

    def is_ready(self) -> bool:
        """Return True if the server answers a client."""
        raise NotImplementedError

    @property
    def pid(self) -> int | None:
        """Return the server's process id, or None while it is down."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start the server and wait until it answers."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*_dying_with_us(self.stop_signal), *self.command()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                # Its own group: a Ctrl-C is for the test run, which then ends the server in order.
                process_group=0,
                **self._identity(),
            )
        deadline = time.monotonic() + START_SECONDS
        while not self.is_ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise ServiceError(f"{self.name} did not start:\n{self.log()}")
            time.sleep(0.02)

    def stop(self) -> None:
        """End the server; fine to call when it is down."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(self.stop_signal)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def close(self) -> None:
        """End the server for good, with its data."""
        try:
            self.stop()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def log(self) -> str:
        """Return the server's output so far."""
        path = self.folder / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def run(self, command: Sequence[str | Path]) -> None:
        """Run one of the server's own tools to its end, as the server's account."""
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd=self.folder,
            timeout=START_SECONDS,
            check=False,
            **self._identity(),
        )
        if done.returncode:
            raise ServiceError(
                f"{self.name}: {command[0]} failed:\n{done.stderr.decode(errors='replace')}"
            )

    def _identity(self) -> dict[str, Any]:
        if self.account is None:
            return {}
        return {"user": self.account.pw_uid, "group": self.account.pw_gid, "extra_groups": []}

    def __enter__(self) -> Self:
        try:
            self.prepare()
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Postgres(Service):
    """A PostgreSQL server only for tests: it lets in anybody on this machine, a crash may cost its
    data.
    """

    name = "postgres"
    # "Fast shutdown": ends sessions, where SIGTERM would wait for them.
    stop_signal = signal.SIGINT
    changes: ClassVar[dict[str, str]] = {}

    def __init__(self) -> None:
        self._bin = find_postgres()
        super().__init__()
        if os.geteuid() == 0:
            self.account = _ordinary_account()
            os.chown(self.folder, self.account.pw_uid, self.account.pw_gid)

    @property
    def url(self) -> str:
        """Return the address of an empty database, as `DATABASE_URL` takes it."""
        return self._url("mailhub")

    def create_database(self, name: str) -> str:
        """Make another empty database and return its address."""
        self.run([self._bin / "createdb", *self._client(), name])
        return self._url(name)

    def prepare(self) -> None:
        options = [
            "--auth=trust",
            "--username=mailhub",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
            "--no-sync",
        ]
        self.run([self._bin / "initdb", f"--pgdata={self.folder}/data", *options, *self.layout()])

    def layout(self) -> list[str]:
        """Return more options of initdb."""
        return []

    def start(self) -> None:
        first = not self.log()
        super().start()
        if first:
            self.create_database("mailhub")

    def command(self) -> Sequence[str | Path]:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
            # Every worker of the suite has its own database, and some tests start processes with a
            # pool each.
            "max_connections": "300",
            # Nobody needs this data after a crash, and the suite is faster without the waits.
            "fsync": "off",
            "synchronous_commit": "off",
            "full_page_writes": "off",
        } | self.changes
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return [self._bin / "postgres", "-D", self.folder / "data", *options]

    def is_ready(self) -> bool:
        ask: list[str | Path] = [self._bin / "pg_isready", "--quiet", *self._client()]
        return subprocess.run(ask, check=False, timeout=START_SECONDS).returncode == 0

    def _client(self) -> list[str]:
        return ["--host=127.0.0.1", f"--port={self.port}", "--username=mailhub"]

    def _url(self, database: str) -> str:
        return f"postgres://mailhub@127.0.0.1:{self.port}/{database}"


class Redis(Service):
    """A Redis server that keeps its data only in memory, so a stop forgets it."""

    name = "redis"

    @property
    def url(self) -> str:
        """Return the address, as `REDIS_URL` takes it."""
        return f"redis://127.0.0.1:{self.port}/0"

    def command(self) -> Sequence[str | Path]:
        server = shutil.which("redis-server")
        if server is None:
            raise ServiceError("redis-server is not installed (bin/system-packages)")
        return [
            server,
            "--bind",
            "127.0.0.1",
            "--port",
            str(self.port),
            "--save",
            "",
            "--appendonly",
            "no",
        ]

    def is_ready(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as client:
                client.sendall(b"PING\r\n")
                return client.recv(16).startswith(b"+PONG")
        except OSError:
            return False


class RabbitMQ(Service):
    """A RabbitMQ server with the Erlang port mapper that it needs, both only for tests."""

    name = "rabbitmq"

    def __init__(self) -> None:
        super().__init__()
        self._mapper_port = free_port()
        self._node_port = free_port()

    @property
    def url(self) -> str:
        """Return the address, as `CELERY_BROKER_URL` takes it."""
        return f"amqp://guest:guest@127.0.0.1:{self.port}//"

    def command(self) -> Sequence[str | Path]:
        # The packaged command in PATH changes to its own account; this one keeps ours.
        server = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
        mapper = shutil.which("epmd")
        if not server.exists() or mapper is None:
            raise ServiceError("rabbitmq-server is not installed (bin/system-packages long)")
        (self.folder / "plugins").write_text("[].")
        settings = {
            "HOME": self.folder,  # the node creates its cookie there
            "ERL_EPMD_PORT": self._mapper_port,
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"mailhub{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": self.port,
            "RABBITMQ_DIST_PORT": self._node_port,
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            "RABBITMQ_MNESIA_BASE": self.folder / "data",
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_ENABLED_PLUGINS_FILE": self.folder / "plugins",
            "RABBITMQ_CONFIG_FILE": self.folder / "none",
            "RABBITMQ_CONF_ENV_FILE": self.folder / "none",
        }
        # By default the node starts a port mapper that outlives it; this one ends with the node.
        script = 'epmd & mapper=$!; "$0" & server=$!; trap "kill $server" TERM; '
        script += "wait $server; wait $server; kill $mapper"
        return [
            "env",
            *(f"{name}={value}" for name, value in settings.items()),
            "sh",
            "-c",
            script,
            server,
        ]

    def is_ready(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as client:
                client.sendall(b"AMQP\x00\x00\x09\x01")
                return client.recv(1) == b"\x01"
        except OSError:
            return False


def free_port() -> int:
    """Return a loopback port that only this process uses, and never the same twice.

    The port is closed until the caller's server opens it, and no other socket takes it meanwhile.
    It also stays reserved while that server restarts.
    """
    while True:
        if not _reserved:
            _reserved.extend(_reserve_slice())
        port = _reserved.pop()
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))  # a foreign program may have it
            return port


def _reserve_slice() -> range:
    """Return ports that no other test process of this machine gets, in any checkout.

    The first port of a slice is its guard: the owner keeps it bound, so nobody else can bind it.
    The kernel frees it when the process ends, however that happens.
    """
    guards = list(range(FIRST_PORT, EPHEMERAL_START - SLICE + 1, SLICE))
    random.SystemRandom().shuffle(guards)
    for port in guards:
        with contextlib.suppress(OSError), socket.socket() as guard:
            guard.bind(("127.0.0.1", port))
            guard.detach()  # stays open until the process ends
            return range(port + 1, port + SLICE)
    raise ServiceError("no free ports")


def find_postgres() -> Path:
    """Return the folder of PostgreSQL's programs, the newest version's where there are several."""
    # Debian keeps them out of PATH, a folder for each version.
    versions = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    for initdb in sorted(versions, key=lambda path: float(path.parts[-3]), reverse=True):
        return initdb.parent
    on_path = shutil.which("initdb")
    if on_path is None:
        raise ServiceError("PostgreSQL's server is not installed (bin/system-packages)")
    return Path(on_path).resolve().parent


def _ordinary_account() -> pwd.struct_passwd:
    """Return the account to use instead of root, which PostgreSQL refuses."""
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise ServiceError(
        "PostgreSQL does not run as root, and there is neither a user postgres nor nobody"
    )


def _dying_with_us(signum: signal.Signals) -> list[str]:
    """Return a prefix that has Linux end the server when the test run is killed and cannot do it
    itself.
    """
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", signum.name.removeprefix("SIG"), "--"] if setpriv else []
