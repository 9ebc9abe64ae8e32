"""Requests and answers of Django, as the OAuth library reads and writes them."""

from urllib.parse import urlencode

from allauth.idp.oidc.internal.oauthlib.utils import extract_headers
from allauth.idp.oidc.internal.resources import validate_resources
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, QueryDict

from accounts.infra.foreign_text import parse_url

Asked = tuple[str, str, str, dict[str, str]]
MOST_RESOURCES = 10  # there are four; each that is asked for is compared with each that was granted


def read_request(request: HttpRequest) -> Asked:
    """Return address, method, body and headers as the library reads them.

    A value that is sent twice stays twice, so that the library refuses it. The library fails over
    letters that are not encoded, so all of them are encoded again.
    """
    query = _encode(request.GET)
    address = f"{request.path}?{query}" if query else request.path
    return address, request.method or "", _encode(request.POST), extract_headers(request)


def read_resources(fields: QueryDict) -> list[str]:
    """Return the resources that a program asks for (RFC 8707); raise ValidationError if one is not
    of this server, or if there are too many.
    """
    found = fields.getlist("resource")
    if len(found) > MOST_RESOURCES:
        raise ValidationError("There are too many resources.")
    try:
        for each in found:
            parse_url(each)  # the library's parser fails over some addresses
    except ValueError:
        raise ValidationError("A resource is not an address.") from None
    validate_resources(found)
    return found


def _encode(fields: QueryDict) -> str:
    return urlencode([(name, each) for name, several in fields.lists() for each in several])


def to_response(headers: dict[str, str], body: str | None, status: int) -> HttpResponse:
    """Return the library's answer as a response."""
    response = HttpResponse(body or "", status=status, content_type="application/json")
    for name, value in headers.items():
        response[name] = value
    return response
