"""The server. It needs a POSIX system, and says so before an import fails without a reason."""

from importlib.util import find_spec

if find_spec("fcntl") is None or find_spec("resource") is None:
    raise SystemExit(
        "The mailhub server runs on Linux and macOS, and on Windows only inside WSL. To connect a program on "
        "this computer to a mailhub elsewhere, run `pip install ./clients/python` and start `mailhub-mcp`."
    )
