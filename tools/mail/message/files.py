"""The names of attachments: safe on every system, each once. Pure, linear."""

import mimetypes
import re
import unicodedata
from collections.abc import Iterable, Iterator

from tools.mail.text.addresses import BIDI
from tools.mail.text.characters import without_invisible

LONGEST = 120  # characters
LONGEST_BYTES = 240  # of UTF-8: file systems take 255
# Not allowed on Windows, or a sign for a shell or a browser; U+FFFD stands for a control character.
FORBIDDEN = re.compile('[/<>:"|?*\x00-\x1f\x7f-\x9f\u2028\u2029\ufffd\ud800-\udfff]')
# Windows takes these for devices, whatever extension they have.
RESERVED = re.compile(r"(?i)(con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³])\s*(\.|\Z)")
EXTENSION = re.compile(r"(?:\.tar)?\.[A-Za-z0-9][A-Za-z0-9_-]{0,15}\Z")
_KNOWN = mimetypes.MimeTypes()  # only the types of Python: those of the system differ
_OOXML = "application/vnd.openxmlformats-officedocument."
EXTENSIONS = {
    "application/ics": ".ics",
    "application/ms-tnef": ".dat",
    "application/pgp-encrypted": ".asc",
    "application/pgp-keys": ".asc",
    "application/pgp-signature": ".asc",
    "application/pkcs7-mime": ".p7m",
    "application/pkcs7-signature": ".p7s",
    "application/rtf": ".rtf",
    "application/vnd.ms-tnef": ".dat",
    "application/x-pkcs7-mime": ".p7m",
    "application/x-pkcs7-signature": ".p7s",
    "application/x-zip-compressed": ".zip",
    "audio/mp4": ".m4a",
    "audio/mpeg": ".mp3",
    "audio/ogg": ".ogg",
    "image/heic": ".heic",
    "image/jpeg": ".jpg",
    "image/jpg": ".jpg",
    "image/svg+xml": ".svg",
    "image/tiff": ".tif",
    "image/webp": ".webp",
    "message/rfc822": ".eml",
    "message/global": ".eml",
    "text/calendar": ".ics",
    "text/html": ".html",
    "text/plain": ".txt",
    "text/vcard": ".vcf",
    "text/x-vcard": ".vcf",
    f"{_OOXML}presentationml.presentation": ".pptx",
    f"{_OOXML}spreadsheetml.sheet": ".xlsx",
    f"{_OOXML}wordprocessingml.document": ".docx",
}


def name_files(given: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield a safe name for each (name, type), different from those before it."""
    taken: set[str] = set()
    twins: dict[str, int] = {}  # where to begin, so that a thousand twins do not take long
    for place, (name, kind) in enumerate(given, start=1):
        safe = safe_name(name) or f"attachment-{place}{extension_of(kind)}"
        free, number = safe, twins.get(_compared(safe), 1)
        while _compared(free) in taken:
            number += 1
            free = _shorten(safe, f"-{number}")
        twins[_compared(safe)] = number
        taken.add(_compared(free))
        yield free


def safe_name(name: str) -> str:
    """Return the name of a file without its path and without signs that a system or a reader takes
    for something else; empty if nothing is left.
    """
    whole = name.strip().rstrip("/\\")
    leaf = re.split(r"[/\\]", whole)[-1] if _is_path(whole) else whole
    plain = FORBIDDEN.sub("_", BIDI.sub("", without_invisible(leaf)).replace("\t", " "))
    plain = unicodedata.normalize("NFC", plain).strip().rstrip(". ")
    if not plain.strip("._ "):
        return ""
    return _shorten(f"_{plain}" if RESERVED.match(plain) else plain, "")


def _is_path(name: str) -> bool:
    """Return True for a path of a system; in other names a slash is a sign, as in a date."""
    return "\\" in name or name[1:3] == ":/" or "../" in name or name.startswith(("/", "~/", "./"))


def extension_of(kind: str) -> str:
    """Return the usual extension of a media type, with its dot."""
    return EXTENSIONS.get(kind) or _KNOWN.guess_extension(kind) or ".bin"


def _shorten(name: str, mark: str) -> str:
    found = EXTENSION.search(name)
    extension = found[0] if found and found.start() else ""
    stem = name[: len(name) - len(extension)][: LONGEST - len(extension) - len(mark)]
    most = LONGEST_BYTES - len((extension + mark).encode())
    stem = stem.encode()[:most].decode(errors="ignore").rstrip(". ")
    return f"{stem}{mark}{extension}"


def _compared(name: str) -> str:
    """Return the name as file systems compare it that ignore case and composition."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())
