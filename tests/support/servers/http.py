"""A web server on loopback that answers as a test describes, and ends without a wait."""

from pytest_httpserver import HTTPServer


class QuickServer(HTTPServer):
    """The server of pytest-httpserver.

    By default it looks every half second whether it should end, and each test waits for that.
    """

    def thread_target(self) -> None:
        assert self.server is not None
        self.server.serve_forever(poll_interval=0.01)
