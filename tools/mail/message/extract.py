"""The text of an attachment, extracted in a limited process.

Documents come from strangers: a bomb in one costs that process its memory and time limits, never
the server.
"""

import csv
import io
import zipfile
from pathlib import PurePath
from typing import Any

from tools.mail.html.clean import clean, clean_html
from tools.mail.parsers import FILES, Unparsable
from tools.mail.text import decoding

UNPACKED_BYTES = 100 * 1024**2
MAX_CHARS = 1_000_000
PAGES = 500
# The parts of a Word document, by the end of their types: each may say what the others do not.
PARTS_WITH_WORDS = tuple(
    f"{part}+xml"
    for part in (
        "document.main header footer footnotes endnotes comments diagramData chart".split()
    )
)

WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
EXCEL = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
BY_SUFFIX = {
    ".pdf": "application/pdf", ".docx": WORD, ".xlsx": EXCEL, ".csv": "text/csv", ".html": "text/html",
    ".htm": "text/html", ".txt": "text/plain", ".md": "text/plain", ".json": "text/plain", ".xml": "text/plain",
    ".ics": "text/plain", ".eml": "text/plain", ".log": "text/plain",
}  # fmt: skip
# Beside its pages, a PDF document may have these.
BESIDE_PAGES = (
    *("/AcroForm /XFA", "/OpenAction /JS", "/AA", "/Names /JavaScript"),
    *("/Names /EmbeddedFiles", "/Collection", "/OCProperties"),
)
SHOWN_ALIKE = ("/Link", "/Widget", "/FreeText")
NO_VIEW = 32  # the flag of what is only printed
BESIDE_CELLS = ("xl/drawings/", "xl/charts/", "xl/comments", "xl/threadedComments/")


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


def shows_more(kind: str | None, content: bytes) -> bool:
    """Return True if the program of a recipient may show more of a document than its text or its drawn
    pages, or something else. Raises Unparsable only if no process is free.
    """
    match kind:
        case "application/pdf" | "text/html":
            try:
                return FILES.run(has_more, kind, content)
            except Unparsable as error:
                error.raise_if_busy()
                return True
    # Fields, formulas, formats and numbers of lists make words that are nowhere written as text.
    return kind in (WORD, EXCEL)


def has_more(kind: str, content: bytes) -> bool:
    """Return the same for a page or a PDF document: a job for a limited process."""
    if kind == "text/html":
        return clean(decoding.text_of(content, "", is_page=True)).removed
    return _pdf_has_more(content)


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


def _pdf_has_more(content: bytes) -> bool:
    """Return True for a document with another form in it (XFA), scripts, layers, files, comments, or
    what only its print shows.
    """
    from pypdf import PdfReader

    document = PdfReader(io.BytesIO(content))
    root = document.root_object
    return any(_is_there(root, *path.split()) for path in BESIDE_PAGES) or any(
        "/AA" in part
        or part.get("/Subtype", "/Link") not in SHOWN_ALIKE
        or part.get("/F", 0) & NO_VIEW
        for page in document.pages[:PAGES]
        for part in (page, *map(_resolved, _resolved(page.get("/Annots")) or ()))
    )


def _is_there(part: Any, *names: str) -> bool:
    for name in names:
        part = _resolved(part.get(name)) if isinstance(part, dict) else None
    return part is not None


def _resolved(part: Any) -> Any:
    return None if part is None else part.get_object()


def _word(content: bytes) -> str:
    from docx import Document
    from docx.oxml import parse_xml

    lines: list[str] = []
    for part in Document(_unpackable(content)).part.package.iter_parts():
        if part.content_type.endswith(PARTS_WITH_WORDS):
            lines += _lines_of(parse_xml(part.blob))
    return "\n".join(lines)


def _lines_of(part: Any) -> list[str]:
    """Return the words of a part of a Word document, wherever they are: `python-docx` leaves out those of
    changes that nobody has accepted, of fields, forms and boxes, and of tables inside each other.
    """
    for old in list(part.iter("{*}Fallback")):
        new = old.getprevious()
        if new is not None and _words_of(new) == _words_of(old):  # the same for older programs
            old.getparent().remove(old)
    words, in_row, in_cell = list[str](), False, False
    for each in part.iter("*"):
        match _name_of(each):
            case "altChunk":  # Word shows another file in its place
                raise CannotExtract("holds another file")
            case "tr":
                words.append("\n")
                in_row = False
            case "tc":
                words.append("\t" if in_row else "")
                in_row = in_cell = True
            case "p" | "br" | "cr" | "pt":
                words.append("" if in_cell else "\n")
                in_cell = False
            case "tab" if _name_of(each.getparent()) == "r":
                words.append("\t")
            case "blip" | "imagedata":
                words.append("[image]")
            case _:
                words.append(_word_of(each))
    return "".join(words).removeprefix("\n").split("\n")


def _words_of(part: Any) -> str:
    return "".join(map(_word_of, part.iter("*")))


def _word_of(element: Any) -> str:
    match _name_of(element):
        case "t" | "text" | "v":  # those of comments in a sheet, and of charts
            return element.text or ""
        case "delText":  # its recipient can show it
            return f"[-{element.text or ''}-]"
        case "sym":
            return chr(int(element.xpath("string(@*[local-name() = 'char'])"), 16))
        case "noBreakHyphen":
            return "-"
    return ""


def _name_of(element: Any) -> str:
    return str(element.tag).rpartition("}")[2]


def _excel(content: bytes) -> str:
    from docx.oxml import parse_xml
    from openpyxl import load_workbook

    lines: list[str] = []
    # A program that calculates nothing stores formulas without their values.
    values, formulas = (
        load_workbook(_unpackable(content), read_only=True, data_only=data_only)
        for data_only in (True, False)
    )
    for sheet, same in zip(values.worksheets, formulas.worksheets, strict=True):
        lines.append(f"# {sheet.title}")
        for each in (sheet, same):
            each.reset_dimensions()  # what the file says of its size may be wrong
        lines += [
            "\t".join(
                ""
                if written is None
                else str(getattr(written, "text", written) if shown is None else shown)
                for shown, written in zip(row, its_formulas, strict=True)
            )
            for row, its_formulas in zip(sheet.values, same.values, strict=True)
        ]
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for name in archive.namelist():
            if name.startswith(BESIDE_CELLS) and name.endswith(".xml"):
                lines += _lines_of(parse_xml(archive.read(name)))
    return "\n".join(lines)


def _unpackable(content: bytes) -> io.BytesIO:
    """Return the archive; raise CannotExtract if its own directory names too much unpacked data."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        if sum(entry.file_size for entry in archive.infolist()) > UNPACKED_BYTES:
            raise CannotExtract("too large inside")
    return io.BytesIO(content)
