"""The files and pages that a browser loads: compressed, and hashed files are asked for once."""

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware
from whitenoise.storage import CompressedManifestStaticFilesStorage


class HashedFiles(CompressedManifestStaticFilesStorage):
    """Where our modules import each other, the names have hashes, too. Libraries import nothing."""

    patterns = (
        *CompressedManifestStaticFilesStorage.patterns,
        ("mailhub/*.js", ((r'(?P<matched>from "(?P<url>\./\w+\.js)")', 'from "%(url)s"'),)),
    )

    def stored_name(self, name: str) -> str:
        """Return the hashed name, or the plain one of a file that collectstatic has not seen yet."""
        try:
            return super().stored_name(name)
        except ValueError:
            return name


class CompressPages(GZipMiddleware):
    """Compression of pages. Streams go piece by piece, and answers to programs keep strong ETags."""

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        is_page = response.get("Content-Type", "").startswith("text/html")
        if not is_page or response.streaming:
            return response
        return super().process_response(request, response)
