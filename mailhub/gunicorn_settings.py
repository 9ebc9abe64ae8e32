"""The settings of gunicorn for pages and REST: `gunicorn -c python:mailhub.gunicorn_settings`.

The application is loaded once, in the parent, and the workers share its memory. `gc.freeze` keeps
the collector from writing to the shared objects, which would give each worker a copy of its own.
"""

import gc
from importlib import import_module

wsgi_app = "mailhub.wsgi:application"
worker_class = "gthread"
workers = 2
threads = 8
preload_app = True


def when_ready(server: object) -> None:
    """Load what requests load at the first use, and freeze all of it, before the first fork."""
    from accounts.access import provider_calls  # Django is set up now
    from tools.mail.parsers import HTML

    provider_calls.AT_ONCE = threads - 2  # the others answer while a mail server says nothing
    for module in HTML:
        import_module(module)
    _require_keys()
    gc.collect()
    gc.freeze()
    # A request makes few objects that stay, so a young generation of 700 is looked through too often.
    gc.set_threshold(50_000)


def _require_keys() -> None:
    """End here if the database has other keys, and leave no connection for the workers to share.

    A pool would go along too: each worker would use its connections, and none its threads.
    """
    from django.db import connections

    from approvals.audit import key_check

    try:
        key_check.require()
    except key_check.WrongKeys as error:
        raise SystemExit(f"mailhub cannot start: {error}") from None
    finally:
        connections.close_all()
        for connection in connections.all():
            if connection.vendor == "postgresql":
                connection.close_pool()  # type: ignore[attr-defined]
