"""Warnings about attachments: mentioned but missing, or not of the type that the name says."""

import re
from pathlib import PurePath

from approvals.core.types import PreviewWarning
from tools.mail.message.compose import Attachment, OutgoingMessage
from tools.warnings.context import Context, own_words

SENTENCE = re.compile(r"[^.!?。！？\n]+")
# Phrases that announce an attachment, in English, German and Chinese.
SAID = re.compile(
    r"""
    \b(?:find|see)\b[^\n]{0,30}\b(?:attached|enclosed|attachments?)\b
    | \b(?:i|we)(?:['’]ve|\ have|['’]m|\ am|['’]re|\ are)?\s+(?:also\s+)?(?:attach(?:ed|ing)?|enclos(?:e|ed|ing))\b
    | \b(?:is|are)\s+(?:attached|enclosed)\b(?!\s+(?:to|by|with)\b)
    | \b(?:attached|enclosed)\s+(?:is|are|you|please|files?|documents?|pdf|invoices?|reports?|contracts?|offer|quote)\b
    | \b(?:the|as)\s+attached\b(?!\s+to\b) | \bin\s+the\s+attachments?\b
    | \b(?:anbei|angehängt\w*|beigefügt\w*|beiliegend\w*|anliegend\w*|im\s+anhang|als\s+anhang|siehe\s+anhang)\b
    | \bin\s+der\s+anlage\b[^\n]{0,40}\b(?:finden|sende|senden|schicke|schicken|erhalten|erhältst|übersende\w*)\b
    | \b(?:finden|sende|senden|schicke|schicken|erhalten|erhältst|übersende\w*)\b[^\n]{0,60}\bin\s+der\s+anlage\b
    | (?:见|見|参见|查看|查收|请看|請看)\s*附件 | 附件(?:是|为|為|中|里|裡|内|內)
    | (?:随信|隨信|随函|隨函|现|兹|特)附 | 附上
    """,
    re.IGNORECASE | re.VERBOSE,
)
# Sentences about an attachment that is not in this mail: missing, theirs, an earlier one, a later
# one.
NOT_SAID = re.compile(
    r"""
    \b(?:not|no|without|your|yours|his|her|their|couldn['’]t|can['’]t|didn['’]t|don['’]t|isn['’]t|aren['’]t|will|would)\b
    | \b(?:nicht|kein\w*|ohne|ihr\w*|dein\w*|eure\w*|deren|werde|werden|würde\w*)\b
    | 没有?附|沒有?附|无附件|無附件|[您你他她](?:们|們)?(?:的|发|發|寄)|收到|未附|不附|稍后|稍後|之前|上次
    """,
    re.IGNORECASE | re.VERBOSE,
)

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


def attachment_missing(message: OutgoingMessage, context: Context) -> PreviewWarning | None:
    if any(not attachment.content_id for attachment in message.request.attachments):
        return None
    said = (sentence for sentence in SENTENCE.findall(own_words(message)) if SAID.search(sentence))
    if not any(_comes_along(sentence) for sentence in said):
        return None
    return PreviewWarning(
        code="attachment_missing",
        title="Nothing is attached.",
        text="The text speaks of an attachment.",
    )


def _comes_along(sentence: str) -> bool:
    return not NOT_SAID.search(sentence) or bool(
        # "Please find your invoice attached": here "your" does not mean another attachment.
        re.search(r"\b(?:please find|anbei)\b|请查收附件|請查收附件", sentence, re.IGNORECASE)
        and not re.search(
            r"\b(?:not|no|without|nicht|kein\w*|ohne)\b|没有|沒有", sentence, re.IGNORECASE
        )
    )


def attachment_type(message: OutgoingMessage, context: Context) -> PreviewWarning | None:
    wrong = [said for attachment in message.request.attachments if (said := misnamed(attachment))]
    if not wrong:
        return None
    more = f" And {len(wrong) - 3} more." if len(wrong) > 3 else ""
    return PreviewWarning(
        code="attachment_type",
        title="A file is not what it is called.",
        text=" ".join(wrong[:3]) + more,
    )


def misnamed(attachment: Attachment) -> str | None:
    """Return how the file differs from its name or type; None if it does not, or if that is
    unknown.
    """
    endings = [suffix[1:].lower() for suffix in PurePath(attachment.name).suffixes]
    ending = endings[-1] if endings else ""
    begins = beginning_of(attachment.content)
    name = f"“{attachment.name}”"
    if ending in PROGRAMS and len(endings) > 1 and endings[-2] in ENDINGS | dict.fromkeys(TEXTS):
        return f"{name} is a program, called like a document."
    if begins == "program" and ending not in PROGRAMS | {"so", "bin", ""}:
        return f"{name} is a program."
    expected = ENDINGS.get(ending)
    if expected and attachment.content and begins not in expected | LENIENT.get(ending, set()):
        return f"{name} does not hold what .{ending} files hold."
    if ending in TEXTS and begins not in ("text", "script", "unknown"):
        return f"{name} is no text, but {begins}."
    claimed = TYPES.get(attachment.type)
    if claimed and attachment.content and begins != claimed and ending not in ENDINGS:
        return f"{name} is not the {attachment.type} it is sent as."
    return None


def beginning_of(content: bytes) -> str:
    """Return the type of the bytes by their beginning: one of BEGINNINGS, text, or unknown."""
    for beginning, sort in BEGINNINGS:
        if content.startswith(beginning) and not (
            sort == "program" and content.isascii() and b"\0" not in content[:512]
        ):
            return sort
    if b"%PDF-" in content[:1024]:
        return "pdf"
    return "text" if content and b"\0" not in content[:4096] else "unknown"
