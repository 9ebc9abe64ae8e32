"""The words with which mail programs introduce quotes and forwards, in their languages. Pure, linear.

They are names of fields and fixed sentences of Gmail, Outlook, Apple Mail, Thunderbird, Yahoo,
Proton, GMX, QQ, 163, Foxmail, Samsung and Notes. A function takes one line or a few joined ones.
"""

import re

LONGEST_LINE = 400  # of an introduction; programs wrap them far earlier
COLONS = (":", "：")
ENDS = (*COLONS, "!", "?", "。")  # of a line that is not continued on the next one
_COLON = r"\s?[:：]"
_RULE = r"[-_=*—–─ ]"
_ANY_CASE = re.IGNORECASE | re.DOTALL


def _one_of(*lists: str) -> str:
    """Return a pattern for one of the phrases; commas are between them."""
    return "|".join(phrase.strip() for each in lists for phrase in each.split(","))


_PREFIX = r"(?:\[[^\[\]]{{1,60}}\] ?){{0,3}}(?:{})(?:\[\d{{1,3}}\]|\(\d{{1,3}}\))? ?[:：].*"
REPLY_PREFIX = re.compile(
    _PREFIX.format(
        _one_of(
            "re, aw, antw, antwort, antwoord, sv, vs, vá, odp, ynt, rif, r, ref, res, resp, reply",
            "回复, 答复, 回覆, 回信, 返信, 回, 답장",
        )
    ),
    _ANY_CASE,
)
FORWARD_PREFIX = re.compile(
    _PREFIX.format(
        _one_of(
            "fw, fwd, wg, wtr, weitergeleitet, tr, rv, i, fs, vl, vb, vbs, pd, enc, doorst, ilt",
            "转发, 轉寄, 轉發, 転送, 전달",
        )
    ),
    _ANY_CASE,
)
MAIL_ADDRESS = re.compile(r"(?<![\w.+'=-])[\w.+'=-]{1,64}@[\w.-]{1,255}")

_FORWARDED = _one_of(
    r"forwarded message, forwarded e-?mail, forwarded by\b.{1,200}",
    r"weitergeleitete nachricht, weitergeleitete e-?mail, weitergeleitet von\b.{1,200}",
    r"message transféré, message transmis, message réexpédié, transféré par\b.{1,200}",
    r"mensaje reenviado, reenviado por\b.{1,200}, messaggio inoltrato, doorgestuurd bericht",
    "mensagem encaminhada, mensagem reencaminhada, vidarebefordrat meddelande",
    "videresendt besked, videresendt meddelelse, videresendt melding, przekazana wiadomość",
    "пересылаемое сообщение, пересланное сообщение, 전달된 메시지",
    "転送メッセージ, 転送されたメッセージ, 転送メール, 转发邮件信息, 转发邮件, 转发的邮件",
    "轉寄郵件, 轉寄的郵件, 轉寄的訊息",
)
FORWARD_RULE = re.compile(rf"{_RULE}{{2,80}}(?:{_FORWARDED}) ?[:：]?{_RULE}{{2,80}}", re.IGNORECASE)
_BEGIN_FORWARDED = _one_of(
    "begin forwarded message, anfang der weitergeleiteten nachricht",
    "anfang der weitergeleiteten e-mail, début du message transféré, début du message réexpédié",
    "inicio del mensaje reenviado, inizio messaggio inoltrato, begin doorgestuurd bericht",
    "início da mensagem reencaminhada, início da mensagem encaminhada, vidarebefordrat brev",
    "转发邮件, 下面是被转发的邮件, 開始轉寄郵件, 以下是轉寄的郵件, 転送されたメッセージ",
)
FORWARD_SENTENCE = re.compile(rf"(?:{_BEGIN_FORWARDED}){_COLON}", re.IGNORECASE)
_ORIGINAL = _one_of(
    "original message, original-nachricht, original appointment, replied message",
    "ursprüngliche nachricht, ursprüngliche mail, ursprüngliche e-mail, originalnachricht",
    "message d['’]origine, message original, message initial, mensaje original",
    "messaggio originale, oorspronkelijk bericht, mensagem original, ursprungligt meddelande",
    "ursprungsmeddelande, oprindelig meddelelse, oprindelig besked, opprinnelig melding",
    "oryginalna wiadomość, wiadomość oryginalna, исходное сообщение, 원본 메시지",
    "原始邮件, 原始郵件, 原邮件, 回复的原邮件, 邮件原件",
    "元のメッセージ, 元のメール, オリジナルメッセージ",
)
ORIGINAL_RULE = re.compile(rf"{_RULE}{{3,80}}(?:{_ORIGINAL}) ?[:：]?{_RULE}{{3,80}}", re.IGNORECASE)
RULE = re.compile(rf"{_RULE}{{3,200}}")

# The lines of a header block. Programs have them in different orders.
_LABELS = {
    "from": _one_of(
        "from, von, de, da, van, från, fra, od, от, от кого, lähettäjä, kimden, feladó",
        "expéditeur, remitente, mittente, afzender, 发件人, 寄件者, 寄件人, 差出人, 送信者, 보낸 사람",
    ),
    "date": _one_of(
        "sent, sent at, date, gesendet, gesendet am, datum, envoyé, envoyé le, date d['’]envoi",
        "enviado, enviado el, enviada em, fecha, inviato, data, verzonden, skickat, sendt, dato",
        "wysłano, отправлено, дата, lähetetty, 发送时间, 发件时间, 日期, 时间, 寄件日期",
        "送信日時, 日時, 日付, 보낸 날짜, 날짜",
    ),
    "to": _one_of(
        "to, an, à, a, para, aan, till, til, do, кому, cc, cci, kopie, copie, kopia, copia",
        "收件人, 收件者, 抄送, 副本, 宛先, 받는 사람, 참조",
    ),
    "subject": _one_of(
        "subject, betreff, objet, asunto, oggetto, onderwerp, ämne, emne, temat, тема, assunto",
        "konu, předmět, tárgy, aihe, 主题, 主旨, 件名, 제목",
    ),
}
LABELS = tuple(
    (
        name,
        re.compile(
            rf"[|*\s]{{0,4}}(?:{words})[*\s]{{0,3}}[:：|][*|\s]{{0,4}}(?P<value>.*)", _ANY_CASE
        ),
    )
    for name, words in _LABELS.items()
)

_VERBS = _one_of(
    "wrote, writes, said, schrieb, schrieben, geschrieben, a écrit, écrit, écrivait, escribió",
    "escribio, escribía, ha scritto, escreveu, schreef, skrev, kirjoitti, yazdı, írta",
    r"napisał, napisała, napisał\(a\), napsal, napsala, napsal\(a\), napísal, napísal\(a\)",
    r"пишет, писал, писала, написал, написала, написал\(а\)",
)
_VERBS_WITHOUT_BLANK = _one_of(
    "写道, 寫道, 写到, 寫到, 写了, 書きました, 書かれました, のメール, 님이 작성"
)
VERB_AT_END = re.compile(rf".*(?:\b(?:{_VERBS})|{_VERBS_WITHOUT_BLANK}){_COLON}", _ANY_CASE)
_EARLY_VERBS = _one_of(
    r"schrieb, schreef, skrev, escribió, a écrit, написал, napsal\(a\), napisał\(a\)",
    r"wrote on, wrote at, escribió el, a écrit le, ha scritto il, escreveu em",
)
VERB_BEFORE_NAME = re.compile(rf".*\b(?:{_EARLY_VERBS})\b.{{1,200}}{_COLON}", _ANY_CASE)
# "Jonas Reed wrote on 03/03/2025:", without an address.
VERB_BEFORE_DATE = re.compile(
    r".{2,80}\b(?:wrote on|wrote at|schrieb am|escribió el|a écrit le|ha scritto il|escreveu em)"
    rf" .{{0,24}}\d.{{0,60}}{_COLON}",
    _ANY_CASE,
)
_BEFORE_DATE = _one_of("on, am, le, el, il, il giorno, op, em, den, w dniu, dne, dňa, at, in")
DATE_AFTER_PREPOSITION = re.compile(
    rf"(?:(?:{_BEFORE_DATE})\b|[在於于])[^\d\n]{{0,24}}\d.*", _ANY_CASE
)
DATE_AT_ONCE = re.compile(
    r"(?:\w{1,12}[.,]{0,2} )?\d{1,4} ?[./년年-].*|\w{2,12}[.,]{1,2} \d{1,2}\.? \w.*"
    r"|\w{3,12}\.? \d{1,2}, 20\d\d.*|20\d\d.*",
    _ANY_CASE,
)
ADDRESS_AT_END = re.compile(r".*@[\w.-]{1,255}[>)\]]{0,2}\s?[:：]", _ANY_CASE)
TIME = re.compile(r"\d ?[:.：h时時点] ?\d{2}(?!\d)", re.IGNORECASE)
YEAR = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)|\d[./-]\d{1,2}[./-]\d{2}(?!\d)")
_QUOTING = _one_of("quoting, zitat von, zitiere, citando, citando a, quoto, selon")
QUOTING = re.compile(rf"(?:{_QUOTING})\b.{{2,200}}{_COLON}", _ANY_CASE)
NOTES_RULE = re.compile(rf"-{{3,10}}.{{1,250}}\b(?:{_VERBS}) ?[:：]? ?-{{3,10}}", re.IGNORECASE)

# The reader is sent to the quote, because it holds the point of the mail.
_BELOW = _one_of(
    r"\bfy[ia]\b, \b(?:see|as|read|find) (?:\w{1,12} )?(?:below|underneath)\b",
    r"\b(?:siehe|s\.|sh\.) ?(?:unten|u\.), \bzur (?:info|information|kenntnis|kenntnisnahme)\b",
    r"\bz\. ?k\., \bzki?\b, \bpour (?:info|information)\b, \bci-dessous\b",
    r"\bpara (?:su|tu) (?:información|conocimiento)\b, \b(?:ver|más) abajo\b, \ba continuación\b",
    "见下, 如下, 下面, 下方, 请参阅, 供参考, ご参考, 参考まで, 以下の通り, 以下のとおり, 下記",
)
POINTS_BELOW = re.compile(_BELOW, re.IGNORECASE)
# The answers are between the lines of the original, where perhaps only a colour tells them apart.
_INSIDE = _one_of(
    r"\bin-?line\b, \b(?:comments?|answers?|replies|notes) .{0,20}\b(?:below|between|in the text)\b",
    r"\bin (?:red|blue|green|bold|capitals|colou?r)\b",
    r"\b(?:antwort(?:en)?|anmerkungen|kommentare?) .{0,30}\b(?:unten|im text|direkt)\b",
    r"\bunten .{0,30}\b(?:antworten|beantwortet)\b, \b(?:unten|direkt) im text\b",
    r"\bin (?:rot|blau|grün|farbe|fett)\b, \ben (?:rouge|bleu|vert|gras|couleur)\b",
    r"\b(?:réponses?|commentaires?) .{0,30}\b(?:ci-dessous|dans le texte)\b",
    r"\b(?:respuestas?|comentarios?) .{0,30}\b(?:abajo|en el texto|entre líneas)\b",
    r"\ben (?:rojo|azul|verde|negrita|color)\b, 红色, 蓝色, 紅色, 藍色, 逐条, 赤字, 青字",
    "インライン, 文中に, 行内",
)
ANSWERS_INSIDE = re.compile(_INSIDE, re.IGNORECASE)


def is_reply(subject: str) -> bool:
    return REPLY_PREFIX.fullmatch(subject.strip()[:LONGEST_LINE]) is not None


def is_forward(subject: str) -> bool:
    return FORWARD_PREFIX.fullmatch(subject.strip()[:LONGEST_LINE]) is not None


def label_of(line: str) -> tuple[str, str]:
    """Return the meaning of a header line (from, date, to, subject) and its value, or ""."""
    if ":" in line or "：" in line or "|" in line:
        for name, pattern in LABELS:
            if found := pattern.fullmatch(line[: 2 * LONGEST_LINE]):
                return name, found["value"].strip(" *|")
    return "", ""


def begins_forward(line: str) -> bool:
    """Return True for a line below which a forwarded message begins."""
    line = line.strip()
    return len(line) <= LONGEST_LINE and bool(
        FORWARD_RULE.fullmatch(line) or FORWARD_SENTENCE.fullmatch(line)
    )


def begins_original(line: str) -> bool:
    """Return True for the line "-----Original Message-----" of any program, or one of Notes."""
    line = line.strip()
    return len(line) <= LONGEST_LINE and bool(
        ORIGINAL_RULE.fullmatch(line) or NOTES_RULE.fullmatch(line)
    )


def is_dated_attribution(text: str) -> bool:
    """Return True for joined lines such as "On 3 March 2025 at 09:12, Mira <…> wrote:"."""
    if len(text) > LONGEST_LINE or not text.endswith(COLONS):
        return False
    if not has_date(text):
        return False
    if has_verb(text):
        return bool(
            DATE_AFTER_PREPOSITION.fullmatch(text)
            or DATE_AT_ONCE.fullmatch(text)
            or MAIL_ADDRESS.search(text)
            or VERB_BEFORE_DATE.fullmatch(text)
        )
    return bool(DATE_AT_ONCE.fullmatch(text) and ADDRESS_AT_END.fullmatch(text))


def has_date(text: str) -> bool:
    return TIME.search(text) is not None or YEAR.search(text) is not None


def is_bare_attribution(text: str) -> bool:
    """Return True for a line such as "Mira Holm wrote:", which has no date."""
    return len(text) <= 160 and (has_verb(text) or QUOTING.fullmatch(text) is not None)


def has_verb(text: str) -> bool:
    return bool(VERB_AT_END.fullmatch(text) or VERB_BEFORE_NAME.fullmatch(text))
