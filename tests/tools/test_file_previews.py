"""A person sees before a decision what the program of a recipient would show of a file."""

import io
import re
import zipfile
from typing import Any

import pytest
from docx import Document
from docx.oxml import parse_xml
from openpyxl import Workbook
from openpyxl.chart import BarChart, Reference, Series
from openpyxl.comments import Comment
from PIL import Image, ImageCms
from PIL.PngImagePlugin import PngInfo

from tools.mail.message.extract import EXCEL, WORD, CannotExtract, extract_text
from tools.mail.message.pictures import draw_here

NAMES = (
    'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" xmlns:v="urn:v" '
    'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
)
RUN = "<w:r><w:t>We pay 4711.</w:t></w:r>"
BOX = f"<w:txbxContent><w:p>{RUN}</w:p></w:txbxContent>"
TABLE = "<w:tbl><w:tblPr/><w:tblGrid><w:gridCol/></w:tblGrid><w:tr><w:tc>%s</w:tc></w:tr></w:tbl>"


def word(inside: str) -> bytes:
    document, stream = Document(), io.BytesIO()
    document.add_paragraph("Good morning")
    document.element.body.insert(1, parse_xml(inside.replace(" ", f" {NAMES} ", 1)))
    document.save(stream)
    return stream.getvalue()


@pytest.mark.parametrize(
    "inside",
    [
        f"<w:p ><w:ins>{RUN}</w:ins></w:p>",
        f"<w:p ><w:sdt><w:sdtContent>{RUN}</w:sdtContent></w:sdt></w:p>",
        f"<w:sdt ><w:sdtContent><w:p>{RUN}</w:p></w:sdtContent></w:sdt>",
        f'<w:p ><w:fldSimple w:instr="AUTHOR">{RUN}</w:fldSimple></w:p>',
        f"<w:p ><w:r><w:pict><v:shape><v:textbox>{BOX}</v:textbox></v:shape></w:pict></w:r></w:p>",
        f"<w:p ><w:r><mc:AlternateContent><mc:Choice>{BOX}</mc:Choice><mc:Fallback>{BOX}</mc:Fallback>"
        "</mc:AlternateContent></w:r></w:p>",
        (TABLE % f"<w:p/>{TABLE % f'<w:p>{RUN}</w:p>'}<w:p/>").replace("<w:tbl>", "<w:tbl >", 1),
    ],
    ids=["change", "form", "form-of-lines", "field", "box", "box-for-two", "table-in-a-table"],
)
def test_each_word_of_a_document_is_shown_once(inside: str) -> None:
    shown = extract_text(WORD, word(inside))
    assert shown.split() == ["Good", "morning", "We", "pay", "4711."]


def test_document_that_takes_in_another_file_is_not_shown() -> None:
    with pytest.raises(CannotExtract):
        extract_text(WORD, word("<w:altChunk />"))


def test_sheet_is_shown_whole_whatever_size_it_names() -> None:
    book, stream, changed = Workbook(), io.BytesIO(), io.BytesIO()
    sheet: Any = book.active
    for row in (["Menu", "We pay"], ["=4700+11"]):
        sheet.append(row)
    sheet["A1"].comment = Comment("For you only", "Ada")
    chart = BarChart()
    chart.series.append(Series(Reference(sheet, min_col=1, min_row=1), title="Or 4712"))
    sheet.add_chart(chart, "D1")
    book.save(stream)
    with zipfile.ZipFile(stream) as parts, zipfile.ZipFile(changed, "w") as others:
        for name in parts.namelist():
            others.writestr(
                name, re.sub(rb'(<dimension ref=)"[^"]*"', rb'\1"A1"', parts.read(name))
            )
        others.writestr("xl/threadedComments/threadedComment1.xml", "<a><text>Not yet</text></a>")
    shown = extract_text(EXCEL, changed.getvalue())
    words = [line for line in shown.split("\n") if line]
    assert words[1:3] == ["Menu\tWe pay", "=4700+11"]
    assert sorted(words[3:]) == ["For you only", "Not yet", "Or 4712"]


def test_grey_picture_of_16_bits_hides_no_other() -> None:
    sheet, file = Image.new("I;16", (2, 1), 65_535), io.BytesIO()
    sheet.putpixel((0, 0), 256)  # nearly black
    sheet.save(file, "PNG")
    drawn = Image.open(io.BytesIO(draw_here(file.getvalue(), 1).png)).convert("L")
    assert [drawn.getpixel((x, 0)) for x in (0, 1)] == [1, 255]


@pytest.mark.parametrize(
    ("form", "mode", "gamma"), [("PNG", "L", 2_000), ("TIFF", "F", 0), ("TIFF", "I", 0)]
)
def test_picture_with_two_looks_is_not_drawn(form: str, mode: str, gamma: int) -> None:
    said, file = PngInfo(), io.BytesIO()
    said.add(b"gAMA", gamma.to_bytes(4, "big"))
    Image.new(mode, (2, 2)).save(file, form, **({"pnginfo": said} if gamma else {}))
    with pytest.raises(ValueError, match="do not agree"):
        draw_here(file.getvalue(), 1)


def profile(mode: str, gamma: float) -> bytes:
    """Return the colour profile sRGB with another gamma, for grey pictures if the mode is L."""
    usual = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    curve = usual.index(b"para") + 12
    found = usual[:curve] + int(gamma * 65_536).to_bytes(4, "big") + usual[curve + 4 :]
    grey = found.replace(b"RGB XYZ ", b"GRAYXYZ ", 1).replace(b"rTRC", b"kTRC", 1)
    return grey if mode == "L" else found


@pytest.mark.parametrize("form", ["PNG", "JPEG"])
@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_colour_profile_hides_no_other_picture(mode: str, form: str) -> None:
    picture = Image.new("L", (64, 64), 230).convert(mode)
    for gamma, drawn in ((2.2, True), (60.0, False)):
        file = io.BytesIO()
        picture.save(file, form, icc_profile=profile(mode, gamma))
        if drawn:
            assert draw_here(file.getvalue(), 1).pages == 1
        else:
            with pytest.raises(ValueError, match="do not agree"):
                draw_here(file.getvalue(), 1)
