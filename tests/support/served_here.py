"""The application behind its intake on a port of loopback, in this process and on its database."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from django.core.handlers.wsgi import WSGIHandler
from django.db import connections
from werkzeug.serving import make_server

from mailhub.intake.wsgi import limit_bodies


@contextmanager
def served_here() -> Iterator[str]:
    """Yield the URL of a threaded server; the test needs `django_db(transaction=True)`."""
    server = make_server("127.0.0.1", 0, limit_bodies(WSGIHandler()), threaded=True)
    thread = threading.Thread(
        target=server.serve_forever, args=(0.01,), name="served-here", daemon=True
    )
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()
        connections.close_all()
