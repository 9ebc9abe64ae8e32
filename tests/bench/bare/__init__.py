"""The minimal cost of a request: the same Django, ninja and server, and one view that creates a
row.

Served as `tests.bench.bare.wsgi:application` and `.asgi` beside mailhub; BARE_DATABASE is the
database of the rows.
"""

import json
import os
import uuid
from typing import Any

import dj_database_url
import django
from django.conf import settings

settings.configure(
    ALLOWED_HOSTS=["127.0.0.1"],
    DATABASES={"default": dj_database_url.parse(os.environ["BARE_DATABASE"], conn_max_age=600)},
    ROOT_URLCONF=__name__,
    SECRET_KEY="bare",
    USE_TZ=True,
)
django.setup()

from django.db import models  # noqa: E402  (Django is set up first)
from django.http import HttpRequest, JsonResponse  # noqa: E402
from django.urls import path  # noqa: E402
from ninja import NinjaAPI, Schema  # noqa: E402


class Row(models.Model):
    """A row that a create request writes; the benchmark creates the table."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    subject = models.CharField(max_length=255)
    body = models.TextField()

    class Meta:
        app_label = "bare"
        db_table = "bare_row"

    def __str__(self) -> str:
        return self.subject


class New(Schema):
    """The body of a create request."""

    subject: str
    body: str


api = NinjaAPI()


@api.post("/rows")
def create(request: HttpRequest, given: New) -> dict[str, Any]:
    row = Row(subject=given.subject, body=given.body)
    row.save(force_insert=True)
    return {"id": str(row.pk), "subject": row.subject}


def view(request: HttpRequest) -> JsonResponse:
    """Return a fixed answer: the floor for a tool without a provider."""
    asked = json.loads(request.body)
    return JsonResponse({"jsonrpc": "2.0", "id": asked["id"], "result": {"content": []}})


urlpatterns = [path("api/", api.urls), path("view", view)]
