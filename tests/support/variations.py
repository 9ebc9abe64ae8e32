"""Messages made at random, with a seed, from charsets, encodings, structures and names as programs
combine them.
"""

import base64
import quopri
import random
from html import escape

from tests.support.letters import DATE, SENDER, File, Letter

WORDS = {
    "windows-1252": "Größe für Jürgen – 5 €",
    "iso-8859-2": "Zażółć gęślą jaźń",
    "windows-1251": "Уважаемая Мария, высылаем счёт",
    "koi8-r": "Добрый день, встреча в пятницу",
    "iso-8859-7": "Καλημέρα σας, το τιμολόγιο",
    "windows-1255": "שלום עולם, פגישה ביום שישי",
    "windows-1256": "السلام عليكم، الاجتماع",
    "gb18030": "您好，请查收发票，朱镕基",
    "big5": "請查收發票，謝謝您",
    "shift_jis": "会議は金曜日です、請求書",
    "iso-2022-jp": "お世話になっております",
    "euc-kr": "안녕하세요 회의는 금요일입니다",
    "utf-8": "Grüße, 你好, мир, 😀 5 €",
    "utf-7": "Grüße und Küsse, 5 €",
}
CODECS = {"iso-8859-2": "iso8859_2", "iso-8859-7": "iso8859_7"}


class _Maker:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.words: list[str] = []
        self.files: list[str] = []
        self.notes: list[str] = []
        self._boundaries = 0

    def message(self, number: int) -> Letter:
        body = self._body()
        charset = self.random.choice(sorted(WORDS))
        subject = f"{number} {WORDS[charset]}"
        head = (
            b"From: Mira Holm <mira@northwind.example>\nTo: ada@lovelace.example\n"
            b"Date: Mon, 02 Nov 2026 10:00:00 +0100\nMIME-Version: 1.0\n"
        )
        source = head + b"Subject: " + self._subject(subject, charset) + b"\n" + body
        return Letter(
            id=f"variation-{number}",
            fact="charsets, encodings and structures at random",
            raw="",
            content=source.replace(b"\n", b"\r\n"),
            subject=subject,
            sender=SENDER,
            date=DATE,
            must_read=self.words,
            notes=self.notes,
            files=[File(name=name) for name in self.files],
        )

    def _subject(self, text: str, charset: str) -> bytes:
        match self.random.choice(["b", "q", "raw"]):
            case "raw":
                return text.encode()
            case "q" if charset not in ("iso-2022-jp", "utf-7"):
                content = quopri.encodestring(_encode(text, charset), header=True)
                content = content.replace(b"=\n", b"").replace(b"?", b"=3F")
                return b"=?%s?Q?%s?=" % (charset.encode(), content)
        encoded = base64.b64encode(_encode(text, charset))
        return b"=?%s?B?%s?=" % (charset.encode(), encoded)

    def _body(self) -> bytes:
        match self.random.randrange(8):
            case 0:
                return self._text()
            case 1:
                return self._page()
            case 2:
                return self._alternative()
            case 3:
                return self._multipart("mixed", self._text(), self._file(), self._text())
            case 4:
                return self._multipart("mixed", self._alternative(), self._file(), self._file())
            case 5:
                return self._multipart("mixed", self._file(), self._alternative())
            case 6:
                self.notes.append("Signed")
                signature = b'Content-Type: application/pgp-signature; name="s.asc"\n\nx'
                return self._multipart("signed", self._alternative(), signature)
        page = self._page()
        picture = b"Content-Type: image/png\nContent-ID: <a@x>\nContent-Transfer-Encoding: base64\n"
        picture += b'Content-Disposition: inline; filename="a.png"\n\niVBORw0KGgo='
        self.files.append("a.png")
        return self._multipart("mixed", self._multipart("related", page, picture), self._text())

    def _alternative(self) -> bytes:
        text = self._text()
        said = self.words[-1]
        page = self._page(said)
        self.words.pop()
        return self._multipart("alternative", text, page)

    def _text(self, said: str = "") -> bytes:
        charset = self.random.choice(sorted(WORDS))
        said = said or WORDS[charset]
        self.words.append(said)
        return self._encoded(b"text/plain", charset, f"{said}\n")

    def _page(self, said: str = "") -> bytes:
        charset = self.random.choice(sorted(WORDS)) if not said else "utf-8"
        said = said or WORDS[charset]
        self.words.append(said)
        return self._encoded(b"text/html", charset, f"<html><body><p>{escape(said)}</p></body>")

    def _encoded(self, kind: bytes, charset: str, text: str) -> bytes:
        content = _encode(text, charset)
        label = self.random.choice([charset, charset.upper(), f'"{charset}"']).encode()
        encoding = self.random.choice([b"8bit", b"base64", b"quoted-printable"])
        if encoding == b"base64":
            content = base64.encodebytes(content)
        elif encoding == b"quoted-printable":
            content = quopri.encodestring(content)
        head = b"Content-Type: %s; charset=%s\nContent-Transfer-Encoding: %s\n\n"
        return head % (kind, label, encoding) + content.removesuffix(b"\n")

    def _file(self) -> bytes:
        number = len(self.files) + 1
        name = self.random.choice(
            [f"Größe {number}.pdf", f"报告{number}.pdf", f"plan-{number}.pdf"]
        )
        self.files.append(name)
        quoted = "".join(f"%{byte:02X}" for byte in name.encode())
        form = self.random.choice(["2231", "word", "raw"])
        written = {
            "2231": f"filename*=utf-8''{quoted}",
            "word": f'filename="=?utf-8?B?{base64.b64encode(name.encode()).decode()}?="',
            "raw": f'filename="{name}"',
        }[form]
        head = "Content-Type: application/pdf\nContent-Transfer-Encoding: base64\n"
        head += f"Content-Disposition: attachment; {written}\n\nJVBERg=="
        return head.encode()

    def _multipart(self, subtype: str, *parts: bytes) -> bytes:
        self._boundaries += 1
        boundary = f"b{self._boundaries}".encode()
        inside = b"".join(b"--%s\n%s\n" % (boundary, part) for part in parts)
        end = self.random.choice([b"--%s--\n" % boundary, b"--%s--" % boundary, b""])
        head = b"Content-Type: multipart/%s; boundary=%s\n\n" % (subtype.encode(), boundary)
        return head + inside + end


def make_letters(count: int, *, seed: int) -> list[Letter]:
    """Return so many messages, each with the words that must be read in order, and its files."""
    return [_Maker(seed * 1000 + number).message(number) for number in range(count)]


def _encode(text: str, charset: str) -> bytes:
    return text.encode(CODECS.get(charset, charset))
