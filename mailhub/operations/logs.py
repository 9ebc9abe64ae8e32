"""Logs with an allow-list of fields, so that no mail content can reach them.

A field that is not in ALLOWED is dropped. Records of other libraries keep their logger, level and
the constant template of the message. Numbers and ids fill it; any other argument becomes `…`,
because it may be an address. An exception is logged as its type and its stack frames, never its text.
"""

import errno
import logging
import re
import sys
import traceback
from collections.abc import Mapping, MutableMapping
from typing import Any, Literal
from uuid import UUID

import structlog
from django.dispatch import receiver
from django.http import HttpRequest, HttpResponse
from django_structlog.signals import bind_extra_request_finished_metadata

ALLOWED = frozenset(
    {
        "event", "level", "timestamp", "logger", "request_id", "method", "route", "code", "status", "duration_ms",
        "action", "attempt", "mailbox", "provider", "tool", "kind", "outcome", "phase", "fence", "count", "port",
        "recipient_count", "size", "sha256", "worker", "process", "exit_code", "error_type", "trace", "retry_after",
        "surface", "token", "user_id", "body_type", "importance", "raw_bytes", "slim_bytes", "approx_tokens", "thread",
        "mode", "endpoint", "reply_all", "has_comment", "errno",
    }
)  # fmt: skip

ID = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}")  # such as the one of a job


def _exception_without_text(
    _logger: Any, _name: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    info = event.pop("exc_info", None)
    error = sys.exc_info()[1] if info is True else info[1] if isinstance(info, tuple) else info
    if isinstance(error, BaseException):
        event["error_type"] = type(error).__qualname__
        if isinstance(error, OSError):
            event["errno"] = errno.errorcode.get(error.errno or 0)
        frames = traceback.extract_tb(error.__traceback__)[-8:]
        event["trace"] = " < ".join(
            f"{f.filename.rsplit('/', 1)[-1]}:{f.lineno}:{f.name}" for f in reversed(frames)
        )
    return event


def _fill_template(
    _logger: Any, _name: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Use a library's constant template as the event, filled with the harmless arguments."""
    record = event.get("_record")
    if isinstance(record, logging.LogRecord) and event.get("_from_structlog") is False:
        arguments = event.pop("positional_args", None)
        # Without arguments the library built the text itself, so it may contain anything.
        is_template = isinstance(record.msg, str) and arguments
        event["event"] = _fill(record.msg, arguments) if is_template else record.name
        if record.exc_info:
            event["exc_info"] = record.exc_info
    return event


def _fill(template: str, arguments: Any) -> str:
    shown = (
        {name: _shorten(value) for name, value in arguments.items()}
        if isinstance(arguments, Mapping)
        else tuple(_shorten(value) for value in arguments)
    )
    try:
        return template % shown
    except (TypeError, ValueError, LookupError):  # it wants a number where there is a text
        return template


def _shorten(value: object) -> object:
    is_id = isinstance(value, str) and ID.fullmatch(value)
    return value if is_id or isinstance(value, int | float | UUID) else "…"


def _keep_listed(
    _logger: Any, _name: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    return {name: value for name, value in event.items() if name in ALLOWED and value is not None}


def configure(form: Literal["logfmt", "json"]) -> None:
    """Send all log records, ours and the libraries', through the allow-list to standard error."""
    order = ["timestamp", "level", "event"]
    last: structlog.types.Processor = (
        structlog.processors.JSONRenderer(default=str)
        if form == "json"
        else structlog.processors.LogfmtRenderer(key_order=order, drop_missing=True)
    )
    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            pass_foreign_args=True,
            foreign_pre_chain=shared,
            processors=[
                _fill_template,
                _exception_without_text,
                _keep_listed,
                last,
            ],
        )
    )
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    # Django logs the path of each refused request. The request log line below has the route instead,
    # but no exception of a middleware.
    requests = logging.getLogger("django.request")
    requests.setLevel(logging.ERROR)
    requests.addFilter(lambda record: bool(record.exc_info))
    # These libraries log network traffic, or one line at each start.
    for name in (
        "imapclient",
        "mail.log",
        "mail.error",
        "uvicorn.error",
        "httpx",
        "httpx2",
        "httpcore2",
        "googleapiclient",
    ):
        logging.getLogger(name).setLevel(logging.WARNING)


@receiver(bind_extra_request_finished_metadata)
def _name_the_route(
    sender: type,
    request: HttpRequest,
    logger: Any,
    response: HttpResponse,
    log_kwargs: dict[str, Any],
    **_: Any,
) -> None:
    """Log the route's pattern and the id of an action: a path can hold a one-time token."""
    match = request.resolver_match
    action = match.kwargs.get("action_id") if match else None
    log_kwargs |= {
        "method": request.method,
        "route": match.route if match else "-",
        "action": str(action) if isinstance(action, UUID) else None,
        "status": response.status_code,
    }
