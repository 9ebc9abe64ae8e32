"""The charset of bytes that name none, or a wrong one: the reading with the fewest odd letters. Pure.

Headers and most mails are short. Libraries compare the bytes with the statistics of long texts: on
twenty sentences, charset-normalizer reads six wrongly.
"""

import re
from contextlib import suppress

SAMPLE_BYTES = 400  # a byte takes up to ten microseconds
WORD = re.compile(rb"[^\s<>]+")
DEFAULT = "cp1252"
UNUSUAL = 0.7  # added for any other charset, so that one or two letters decide nothing
# The common letters outside ASCII in the languages of each charset. On a tie the first charset wins.
LETTERS = {
    "cp1252": "äöüßéèêëàâçñíóúáîïôûœæøåãõìòùÿºª",
    "cp1251": "оеаинітсрвлкмїдпуєяьыбзгчйхжшюцщэфўґ",
    "koi8_r": "оеаинтсрвлкмдпуяьыбзгчйхжшюцщэф",
    "cp1250": "áéíóúýčďěňřšťůžąćęłńśźżöüőűäăâîşôľĺß",
    "cp1253": "αοιετσνηυρπκμλςάίόέήώύδγθχφβξζψ",
    "cp1254": "ğışçöüâîİ",
    "cp1255": "יולהאמרתבשנדעקםחןצפטגסזכ",
    "cp1256": "اليمونرتبهعدفسكقأإة",
    "cp1257": "āčēģīķļņšūžąęėįųõäöü",
    "cp874": "านรอกเงวมลสทยตดคะปบพหจชขโไใแ่้์ิีุูำั",
    "cp932": "",
    "gb18030": "的一是了我不在有人这中大来上国个到们为子和你地出时年得就要下以生会自过家学对可后"
    "小多天能好都日于还发成事只作文开用主行方前所本经面公同请您件附票",
    "big5hkscs": "的一是了我不在有人這中大來上國個到們為子和你地出時年得就要下以生會自過家學對可後"
    "小多天能好都日於還發成事只作文開用主行方前所本經面公同請您件附票",
    "cp949": "이다는에의가을를고하은지로서한사인기도시아니안요습녕세보드립청구해어정부전수자일대주나라그리있것들",
    "euc_jp": "",
}
# The first bytes of the letters that each charset for East Asia lists as common.
COMMON_ROWS = {
    "cp932": (0x88, 0x97),
    "gb18030": (0xB0, 0xD7),
    "big5hkscs": (0xA4, 0xC6),
    "cp949": (0xB0, 0xC8),
    "euc_jp": (0xB0, 0xCF),
}
# Signs that occur in honest text of any language.
SIGNS = frozenset("\xa0“”„‘’‚–—…•€«»§°©®™№×÷‰†‡‹›¢£²³½´·¡¿、。，！？：；（）「」【】《》・ー～　")
INSIDE_WORDS = frozenset("’·ー")
OPENING = frozenset("¡¿")
# Charsets that switch to two bytes for a letter, all of them ASCII.
ESCAPE, KOREAN = b"\x1b$", b"\x1b$)C"


def detect_codec(content: bytes) -> str:
    """Return Python's name of the charset that most probably has these bytes."""
    if content.isascii() and ESCAPE in content:
        return "iso2022_kr" if KOREAN in content else "iso2022_jp"
    sample = _sample(content)
    scores = {}
    # A sample that was cut may end inside a character.
    most = 3 if len(sample) == SAMPLE_BYTES else 0
    for codec in LETTERS:
        for left_out in range(most + 1):
            with suppress(UnicodeError):
                text = sample[: len(sample) - left_out].decode(codec)
                scores[codec] = _oddness(text, codec)
                break
    return min(scores, key=lambda codec: scores[codec], default=DEFAULT)


def _sample(content: bytes) -> bytes:
    """Return the first words with bytes outside ASCII."""
    sample = bytearray()
    for word in WORD.finditer(content):
        if not word[0].isascii():
            sample += word[0][: SAMPLE_BYTES - len(sample)]
            if len(sample) == SAMPLE_BYTES:
                break
            sample += b" "
    return bytes(sample)


def _oddness(text: str, codec: str) -> float:
    """Return the average oddness of the characters outside ASCII, from 0 for none."""
    odd = [
        _oddness_of(before, character, after, codec)
        for before, character, after in zip(f" {text}", text, f"{text[1:]} ", strict=False)
        if not character.isascii()
    ]
    return (sum(odd) + (0.0 if codec == DEFAULT else UNUSUAL)) / max(len(odd), 1)


def _oddness_of(before: str, character: str, after: str, codec: str) -> float:
    """Return the oddness of one character; the weights come from the sentences of the tests."""
    if character in SIGNS:
        return 2.0 if _is_misplaced(before, character, after) and codec not in COMMON_ROWS else 0.0
    rank = LETTERS[codec].find(character.lower())
    if rank < 0 and not character.isalpha():
        return 3.0
    if codec in COMMON_ROWS:
        rarity = 0.0 if rank >= 0 else _rarity(character, codec)
        return rarity + 1.5 * (_is_latin(before) and _is_latin(after))
    is_latin = _is_latin(character)
    odd = 1.0 if rank < 0 else 0.0 if is_latin else 0.6 * rank / len(LETTERS[codec])
    if before.isalpha() and _is_latin(before) != is_latin:
        odd += 2.0
    if before.isalpha() and character.isupper():
        odd += 1.5 if before.islower() else 0.03
    if is_latin:
        accents = [not other.isascii() and other.isalpha() for other in (before, after)]
        odd += 0.4 * accents[0] + 0.8 * all(accents)
    return odd


def _is_misplaced(before: str, sign: str, after: str) -> bool:
    """Return True for a sign inside a word, where another charset has a letter."""
    if sign in INSIDE_WORDS:
        return False
    if before.isalpha():
        return after.isalpha() or sign in OPENING
    return sign == "£" and after.isalpha()


def _is_latin(character: str) -> bool:
    return character.isalpha() and character < "\u0250"


def _rarity(character: str, codec: str) -> float:
    if "\u3041" <= character <= "\u30fe":
        return 0.0 if codec in ("cp932", "euc_jp") else 1.5
    if "\uff61" <= character <= "\uff9f":
        return 2.0  # half-width katakana: most bytes of other charsets are valid ones
    first, last = COMMON_ROWS[codec]
    is_hangul = "\uac00" <= character <= "\ud7a3"
    if is_hangul != (codec == "cp949"):
        return 1.5
    return 0.25 if first <= character.encode(codec)[0] <= last else 1.0
