"""Pictures of a file as a person looks at it: a page of a PDF document, or a picture encoded again.

They are drawn in a limited process, and nothing of the file itself reaches the browser. PDFium
runs no scripts and opens no links here.
"""

import io
from dataclasses import dataclass

from tools.mail.parsers import FILES

WIDTH, HEIGHT = 1000, 10_000  # pixels
PDF = b"%PDF-"
FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF")
# By the first bytes, because a name and a type are only claims.
BEGINNINGS = (b"\x89PNG\r\n", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"BM", b"II*\0", b"MM\0*")


@dataclass(frozen=True, kw_only=True)
class Picture:
    """One page as PNG, and the number of pages of its file."""

    png: bytes
    pages: int


def can_be_drawn(content: bytes) -> bool:
    return _is_pdf(content) or content.startswith(BEGINNINGS)


def draw(content: bytes, page: int = 1) -> Picture:
    """Return a page of the file, the first is 1. Raises Unparsable."""
    return FILES.run(draw_here, content, page)


def draw_here(content: bytes, page: int) -> Picture:
    """Return the same: a job for a limited process."""
    return _draw_pdf(content, page) if _is_pdf(content) else _draw_picture(content)


def _is_pdf(content: bytes) -> bool:
    return PDF in content[:1024]  # readers accept bytes before it


def _draw_pdf(content: bytes, page: int) -> Picture:
    from pypdfium2 import PdfDocument

    with PdfDocument(content) as document:  # type: ignore[no-untyped-call]
        document.init_forms()  # what is typed into the fields of a form is a part of what is read
        sheet = document[page - 1]
        scale = min(WIDTH / sheet.get_width(), HEIGHT / sheet.get_height())
        return Picture(png=_png_of(sheet.render(scale=scale).to_pil()), pages=len(document))


def _draw_picture(content: bytes) -> Picture:
    from PIL import Image, ImageOps

    with Image.open(io.BytesIO(content), formats=FORMATS) as picture:
        picture.load()
        turned = ImageOps.exif_transpose(picture)
    turned.thumbnail((WIDTH, HEIGHT))
    return Picture(png=_png_of(turned.convert("RGBA")), pages=1)


def _png_of(picture) -> bytes:  # type: ignore[no-untyped-def]
    written = io.BytesIO()
    picture.save(written, "PNG")
    return written.getvalue()
