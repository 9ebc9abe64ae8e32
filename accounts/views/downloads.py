"""Answers that are files: their bytes count in memory until the reader has them."""

import weakref
from contextlib import ExitStack

from django.http import HttpResponse
from django.utils.http import content_disposition_header

from accounts.access.provider_calls import ANSWERS


def as_download(person_id: int, name: str, content: bytes) -> HttpResponse:
    """Return bytes as a file that no browser interprets.

    Raises Problem `transient` while too many large files of this person are on their way.
    """
    with ExitStack() as stack:
        note = stack.enter_context(ANSWERS.hold(person_id))
        note(len(content))
        response = HttpResponse(content, content_type="application/octet-stream")
        # Not when it is closed: a reader who disconnects early leaves an answer that nobody closes.
        weakref.finalize(response, stack.pop_all().close)
    disposition = content_disposition_header(True, name or "attachment")
    response["Content-Disposition"] = disposition or "attachment"
    return response
