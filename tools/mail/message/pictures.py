"""Pictures of a file as a person looks at it: the pages of a PDF document or a picture, drawn again.

They are drawn in a limited process, and nothing of the file itself reaches the browser. PDFium
runs no scripts and opens no links here.
"""

import io
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from tools.mail.parsers import FILES

WIDTH, HEIGHT = 1000, 10_000  # pixels
PDF = b"%PDF-"
USUAL_GAMMA = 1 / 2.2
USUAL_CHANGE = 48  # of 255, which usual profiles of cameras and printers stay below
SAMPLED = 2000
FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF")
BEGINNINGS = (b"\x89PNG\r\n", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"BM", b"II*\0", b"MM\0*")
ENDINGS = frozenset("png jpg jpeg jpe jfif gif webp bmp tif tiff".split())
# Programs declare these types if they know none.
UNKNOWN_TYPES = ("", "application/octet-stream", "binary/octet-stream", "text/plain")


@dataclass(frozen=True, kw_only=True)
class Picture:
    """One page as PNG, and the number of pages of its file."""

    png: bytes
    pages: int


def can_be_drawn(content: bytes, *, name: str, media_type: str) -> bool:
    """Return True if the first bytes, the name and the type all say PDF, or all say picture.

    Programs open a file by its name or type: one that holds two documents would be shown here as
    one, and opened there as the other. A name without an ending says nothing.
    """
    is_pdf = content.startswith(PDF)
    if not is_pdf and not content.startswith(BEGINNINGS):
        return False
    ending = PurePath(name.lower()).suffix[1:]
    if ending.strip("0123456789 ") and (ending != "pdf" if is_pdf else ending not in ENDINGS):
        return False
    claimed = media_type.lower().partition(";")[0].strip()
    if claimed in UNKNOWN_TYPES:
        return True
    if is_pdf:
        return claimed == "application/pdf"
    return claimed.startswith("image/") and claimed != "image/svg+xml"


def draw(content: bytes, page: int = 1) -> Picture:
    """Return a page of the file, the first is 1. Raises Unparsable."""
    return FILES.run(draw_here, content, page)


def draw_here(content: bytes, page: int) -> Picture:
    """Return the same: a job for a limited process."""
    return (_draw_pdf if content.startswith(PDF) else _draw_picture)(content, page)


def _draw_pdf(content: bytes, page: int) -> Picture:
    from pypdfium2 import PdfDocument

    with PdfDocument(content) as document:  # type: ignore[no-untyped-call]
        document.init_forms()  # what is typed into the fields of a form is a part of what is read
        sheet = document[page - 1]
        scale = min(WIDTH / sheet.get_width(), HEIGHT / sheet.get_height())
        return Picture(png=_png_of(sheet.render(scale=scale).to_pil()), pages=len(document))


def _draw_picture(content: bytes, page: int) -> Picture:
    from PIL import Image, ImageOps

    with Image.open(io.BytesIO(content), formats=FORMATS) as picture:
        # A photo may hold itself in other sizes (MPO), which no program shows as pages.
        pages = 1 if picture.format == "MPO" else getattr(picture, "n_frames", 1)
        picture.seek(page - 1)
        picture.load()
        if _looks_different_elsewhere(picture):
            raise ValueError("Programs do not agree on how bright it is.")
        turned = _in_8_bits(ImageOps.exif_transpose(picture))
    turned.thumbnail((WIDTH, HEIGHT))
    return Picture(png=_png_of(turned.convert("RGBA")), pages=pages)


def _looks_different_elsewhere(picture: Any) -> bool:
    """Return True for values whose brightness is not given, and for a gamma or a profile that only some
    programs use: one picture may hide another in it.
    """
    said = picture.info
    odd_gamma = abs(said.get("gamma", USUAL_GAMMA) - USUAL_GAMMA) > USUAL_GAMMA / 10
    return (
        picture.mode in ("I", "F")
        or (odd_gamma and not {"srgb", "icc_profile"} & said.keys())
        or _changed_by_profile(picture) > USUAL_CHANGE
    )


def _changed_by_profile(picture: Any) -> int:
    """Return how much brighter or darker the colour profile of a picture makes a part of it, up to 255.

    Some programs do not use the profile, and those that do ignore a broken one.
    """
    from PIL import Image, ImageChops, ImageCms

    # Single pixels as they are: a mixture might not change.
    picture = picture.resize(
        [min(side, SAMPLED) for side in picture.size], Image.Resampling.NEAREST
    )
    grey = picture.mode in ("1", "L", "LA") or picture.mode.startswith("I;16")
    plain = _in_8_bits(picture).convert("L" if grey else "RGB")
    try:
        profile = ImageCms.ImageCmsProfile(io.BytesIO(picture.info.get("icc_profile", b"")))
        seen: Any = ImageCms.profileToProfile(
            plain, profile, ImageCms.createProfile("sRGB"), outputMode="RGB"
        )
    except (OSError, ImageCms.PyCMSError):
        return 0
    change: Any = ImageChops.difference(plain.convert("L"), seen.convert("L"))
    return int(change.getextrema()[1])


def _in_8_bits(picture: Any) -> Any:
    """Return a grey picture of 16 bits in 8: the library would show all but its darkest values as white."""
    if not picture.mode.startswith("I;16"):
        return picture
    return picture.convert("I").point(lambda value: value / 256).convert("L")


def _png_of(picture: Any) -> bytes:
    written = io.BytesIO()
    picture.save(written, "PNG")
    return written.getvalue()
