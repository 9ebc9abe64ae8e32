"""The text of an attachment, extracted in a limited process.

Documents come from strangers: a bomb in one costs that process its memory and time limits, never
the server.
"""

import csv
import io
import zipfile
from pathlib import PurePath

from tools.mail.html.clean import clean_html
from tools.mail.parsers import FILES, Unparsable
from tools.mail.text import decoding

UNPACKED_BYTES = 100 * 1024**2
MAX_CHARS = 1_000_000
PAGES = 500

WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
EXCEL = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
BY_SUFFIX = {
    ".pdf": "application/pdf", ".docx": WORD, ".xlsx": EXCEL, ".csv": "text/csv", ".html": "text/html",
    ".htm": "text/html", ".txt": "text/plain", ".md": "text/plain", ".json": "text/plain", ".xml": "text/plain",
    ".ics": "text/plain", ".eml": "text/plain", ".log": "text/plain",
}  # fmt: skip


class CannotExtract(Exception):
    """No text can be extracted; the sentence says why."""


def kind_of(media_type: str, name: str) -> str | None:
    """Return the kind of document, by its type, else by its name; None if it has no extractable
    text.
    """
    by_type, by_name = _kinds(media_type, name)
    claimed = _bare(media_type)
    return (
        by_type
        or by_name
        or ("text/plain" if claimed.startswith("text/") or claimed == "application/json" else None)
    )


def is_two_kinds(media_type: str, name: str) -> bool:
    """Return True if the type and the name say different kinds of documents."""
    by_type, by_name = _kinds(media_type, name)
    return None not in (by_type, by_name) and by_type != by_name


def _kinds(media_type: str, name: str) -> tuple[str | None, str | None]:
    claimed = _bare(media_type)
    by_type = (
        claimed if claimed in ("application/pdf", WORD, EXCEL, "text/csv", "text/html") else None
    )
    return by_type, BY_SUFFIX.get(PurePath(name.lower()).suffix)


def _bare(media_type: str) -> str:
    return media_type.lower().partition(";")[0].strip()


def text_from(content: bytes, *, media_type: str, name: str) -> str:
    """Return the text of a document, at most a million characters. Raises CannotExtract."""
    kind = kind_of(media_type, name)
    if kind is None:
        raise CannotExtract(
            "No text can be read from this type of file. Ask for it as link or base64."
        )
    try:
        return FILES.run(extract_text, kind, content)
    except Unparsable as error:
        match error.reason:
            case "busy":
                raise
            case "slow":
                raise CannotExtract(
                    "The file takes too long or too much memory to read. Ask for it as link."
                ) from None
        raise CannotExtract(
            "The file could not be read: it is damaged, protected or too large inside. "
            "Ask for it as link or base64."
        ) from None


def extract_text(kind: str, content: bytes) -> str:
    """Return the text of a document: a job for a limited process."""
    return decoding.without_controls(_extract_by_type(kind, content)[:MAX_CHARS])


def _extract_by_type(kind: str, content: bytes) -> str:
    match kind:
        case "application/pdf":
            return _pdf(content)
        case "text/html":
            from tools.mail.html.text import render

            return render(clean_html(decoding.text_of(content, "", is_page=True)))
        case "text/csv":
            rows = csv.reader(io.StringIO(decoding.text_of(content, "")))
            return "\n".join("\t".join(row) for row in rows)
        case _ if kind == WORD:
            return _word(content)
        case _ if kind == EXCEL:
            return _excel(content)
    return decoding.text_of(content, "")


# Imported inside the functions: each library costs tens of milliseconds, and one process reads one
# kind.
def _pdf(content: bytes) -> str:
    from pypdf import PdfReader

    return "\n\n".join(page.extract_text() for page in PdfReader(io.BytesIO(content)).pages[:PAGES])


def _word(content: bytes) -> str:
    from docx import Document

    document = Document(_unpackable(content))
    # The heads and feet of pages may say as much as the text.
    edges = [
        edge
        for section in document.sections
        for edge in (
            section.header,
            section.first_page_header,
            section.footer,
            section.first_page_footer,
        )
        if not edge.is_linked_to_previous
    ]
    lines = []
    for part in (document, *edges):
        lines += [paragraph.text for paragraph in part.paragraphs]
        lines += [
            "\t".join(cell.text for cell in row.cells)
            for table in part.tables
            for row in table.rows
        ]
    return "\n".join(lines)


def _excel(content: bytes) -> str:
    from openpyxl import load_workbook

    book = load_workbook(_unpackable(content), read_only=True, data_only=True)
    lines = []
    for sheet in book.worksheets:
        lines.append(f"# {sheet.title}")
        lines += [
            "\t".join("" if cell is None else str(cell) for cell in row) for row in sheet.values
        ]
    return "\n".join(lines)


def _unpackable(content: bytes) -> io.BytesIO:
    """Return the archive; raise CannotExtract if its own directory names too much unpacked data."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        if sum(entry.file_size for entry in archive.infolist()) > UNPACKED_BYTES:
            raise CannotExtract("too large inside")
    return io.BytesIO(content)
