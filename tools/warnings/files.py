"""Warnings about attachments: mentioned but missing, or not of the type that the name says."""

from pathlib import PurePath

from accounts.infra.texts import Translatable, join, translatable
from tools.mail.message.compose import Attachment, OutgoingMessage
from tools.warnings import mentions
from tools.warnings.checks import NAMED, and_more, check
from tools.warnings.context import Context, announcing_words

# The first bytes of a file, by type.
BEGINNINGS = (
    (b"%PDF-", "pdf"),
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"\xff\xd8\xff", "jpeg"),
    (b"GIF8", "gif"),
    (b"PK\x03\x04", "zip"),
    (b"PK\x05\x06", "zip"),
    (b"MZ", "program"),
    (b"\x7fELF", "program"),
    (b"\xcf\xfa\xed\xfe", "program"),
    (b"#!/", "script"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "ole"),
    (b"{\\rtf", "rtf"),
    (b"\x1f\x8b", "gzip"),
    (b"7z\xbc\xaf\x27\x1c", "7z"),
    (b"Rar!\x1a\x07", "rar"),
)
# The first bytes of files with this ending; ambiguous endings are not listed.
ENDINGS = {
    "pdf": {"pdf"}, "png": {"png"}, "jpg": {"jpeg"}, "jpeg": {"jpeg"}, "gif": {"gif"}, "zip": {"zip"},
    "docx": {"zip"}, "xlsx": {"zip"}, "pptx": {"zip"}, "odt": {"zip"}, "ods": {"zip"}, "odp": {"zip"},
    "doc": {"ole", "rtf"}, "xls": {"ole"}, "ppt": {"ole"}, "msg": {"ole"}, "rtf": {"rtf"},
    "gz": {"gzip"}, "tgz": {"gzip"}, "7z": {"7z"}, "rar": {"rar"},
}  # fmt: skip
# Old programs use these endings for newer file types too, and newer programs for old ones.
LENIENT = {"doc": {"zip"}, "xls": {"zip", "text"}, "ppt": {"zip"}}
TEXTS = {
    "txt",
    "csv",
    "md",
    "log",
    "json",
    "xml",
    "html",
    "htm",
    "ics",
    "eml",
    "vcf",
    "sql",
    "yaml",
    "yml",
    "svg",
}
PROGRAMS = {
    "exe", "com", "scr", "pif", "bat", "cmd", "msi", "ps1", "vbs", "vbe", "js", "jse", "wsf", "hta", "lnk", "jar",
    "cpl", "reg", "dll", "app", "dmg", "iso", "img",
}  # fmt: skip
TYPES = {
    "application/pdf": "pdf", "image/png": "png", "image/jpeg": "jpeg", "image/gif": "gif",
    "application/zip": "zip", "application/gzip": "gzip",
}  # fmt: skip


@check(translatable("Nothing is attached."), translatable("attachment missing?"), of_text=True)
def attachment_missing(message: OutgoingMessage, context: Context) -> str | None:
    """Warn if the text mentions an attachment and there is no attachment."""
    if any(not attachment.content_id for attachment in message.request.attachments):
        return None
    if not mentions.has_announcement(announcing_words(message)):
        return None
    return translatable("The text mentions an attachment.")


@check(translatable("A file is not what its name says."), translatable("file type does not match"))
def attachment_type(message: OutgoingMessage, context: Context) -> str | None:
    """Warn if the content of a file does not match its name or type."""
    wrong = [
        said for attachment in message.request.attachments if (said := find_misnaming(attachment))
    ]
    return join(*wrong[:NAMED], and_more(len(wrong) - NAMED))


def find_misnaming(attachment: Attachment) -> Translatable | None:
    """Return how the file differs from its name or type; None if it does not, or if that is
    unknown.
    """
    endings = [suffix[1:].strip().lower() for suffix in PurePath(attachment.name).suffixes]
    ending = endings[-1] if endings else ""
    begins = beginning_of(attachment.content)
    name = attachment.name
    if ending in PROGRAMS and len(endings) > 1 and endings[-2] in ENDINGS | dict.fromkeys(TEXTS):
        return translatable("“%(name)s” is a program with the name of a document.", name=name)
    if begins == "program" and ending not in PROGRAMS | {"so", "bin", ""}:
        return translatable("“%(name)s” is a program.", name=name)
    expected = ENDINGS.get(ending)
    if expected and attachment.content and begins not in expected | LENIENT.get(ending, set()):
        return translatable(
            "“%(name)s” does not contain what .%(ending)s files contain.", name=name, ending=ending
        )
    if ending in TEXTS and begins not in ("text", "script", "unknown"):
        return translatable("“%(name)s” is not text, but %(type)s.", name=name, type=begins)
    if (
        begins not in ("pdf", "text", "unknown")
        and ending != "zip"
        and _holds_pdf(attachment.content)
    ):
        return translatable(
            "“%(name)s” is two documents in one: it is a PDF document, too.", name=name
        )
    claimed = TYPES.get(attachment.type)
    if claimed and attachment.content and begins != claimed and ending not in ENDINGS:
        return translatable(
            "“%(name)s” is sent as %(type)s, but contains something else.",
            name=name,
            type=attachment.type,
        )
    return None


def beginning_of(content: bytes) -> str:
    """Return the type of the bytes by their beginning: one of BEGINNINGS, text, or unknown."""
    for beginning, sort in BEGINNINGS:
        if content.startswith(beginning) and not (
            sort == "program" and content.isascii() and b"\0" not in content[:512]
        ):
            return sort
    if _holds_pdf(content):
        return "pdf"
    return "text" if content and b"\0" not in content[:4096] else "unknown"


def _holds_pdf(content: bytes) -> bool:
    return b"%PDF-" in content[:1024]  # readers of PDF accept bytes before it
