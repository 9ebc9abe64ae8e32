"""Servers of this machine that a test lets mailhub reach, as its settings name them."""

from collections.abc import Container


class EveryServer(Container[str]):
    """Every mail server on this machine, because those of tests choose their own ports."""

    def __contains__(self, server: object) -> bool:
        return str(server).startswith(("127.", "::1:")) or server == "sandbox"


def on_ports(*ports: int) -> frozenset[str]:
    """Return the servers on these ports, for `localhost` too."""
    return frozenset(f"{address}:{port}" for address in ("127.0.0.1", "::1") for port in ports)
