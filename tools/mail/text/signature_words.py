"""The words that mail programs and companies add below a mail, in their languages. Pure, linear."""

import re

from tools.mail.text.quote_words import LONGEST_LINE

_DEVICES = (
    "iphones?|ipads?|galaxy|samsung|android|mobile|mobiltelefon|mobilgerät|handy|smartphone|phone"
    "|tablet|ios|blackberry|huawei|xiaomi|redmi|honor|oppo|vivo|oneplus|pixel|motorola|windows|outlook"
    r"|yahoo|proton ?mail|gmx|web\.de|gmail|mailspring|aol|k-9|thunderbird|bluemail|mymail|spark"
    "|email app|mail app|téléphone|teléfono|móvil|celular|手机|手機|企业微信|网易邮箱大师|qq邮箱"
    "|スマートフォン|携帯|を入手|送信"
)
_SENT_FROM = (
    "(?:sent|delivered) (?:from|via|with|using|by)|get|download"
    "|gesendet (?:von|mit|aus|über)|von mein|von|verschickt|diese nachricht wurde von"
    "|envoyé (?:de|depuis|à partir|avec|par)|obtenir|obtenez|télécharger|téléchargez"
    "|enviado (?:desde|con|a partir|do|de|por)|obtener|obtén|obtenga|mandado desde"
    "|inviato (?:da|dal)|ottieni|verstuurd|verzonden|skickat|sendt|wysłane|wysłano|отправлено"
    "|outlook (?:für|for|pour|para|per)"
    "|发自|發自|发送自|來自|来自|从|從|获取|取得|私の|iphone|ipad|android|galaxy|windows|携帯"
)
DEVICE_LINE = re.compile(rf"(?:{_SENT_FROM}).{{0,50}}?(?:{_DEVICES}).{{0,60}}", re.IGNORECASE)
LINK_AT_END = re.compile(r" ?[<(\[]{0,2}https?://\S{1,300}")
_FOOTERS = "|".join(
    (
        r"this (?:e-?mail|message|communication|transmission)\b.{0,120}"
        r"(?:confidential|intended|privileged|private)",
        r"(?:the )?(?:information|content)s?\b.{0,80}\b(?:confidential|privileged|intended)",
        r"confidentiality notice|disclaimer ?:|(?:please )?consider the environment",
        r"diese (?:e-?mail|nachricht)\b.{0,120}(?:vertraulich|bestimmt|geschützt)",
        r"der inhalt dieser (?:e-?mail|nachricht)",
        r"bitte (?:denken|prüfen) sie .{0,60}(?:umwelt|drucken|ausdruck)",
        r"ce (?:message|courriel|mail|e-mail)\b.{0,120}(?:confidentiel|destiné|réservé)",
        r"pensez à l['’]environnement",
        r"este (?:mensaje|correo|e-mail)\b.{0,120}(?:confidencial|dirigid|destinad)",
        r"aviso (?:legal|de confidencialidad)|antes de imprimir",
        r"[本此](?:电子)?(?:邮件|郵件|メール|電子メール).{0,100}"
        r"(?:保密|机密|機密|仅供|僅供|秘密|受信者)",
        r"このメール.{0,100}(?:機密|秘密|受信者|誤っ)",
    )
)
FOOTER = re.compile(rf"(?:{_FOOTERS}).*", re.IGNORECASE | re.DOTALL)
# An afterthought below a signature, which its reader must see.
AFTERTHOUGHT = re.compile(
    r"\s{0,8}(?:p\.? ?){1,3}s\b.*|\s{0,8}nb[:.].*|附[:：].*|追伸.*", re.IGNORECASE | re.DOTALL
)


def names_device(line: str) -> bool:
    """Return True for "Sent from my iPhone" and its relatives."""
    line = line.strip(" *_<>[]()")
    if len(line) > LONGEST_LINE:
        return False
    line = LINK_AT_END.sub("", line).strip(" *_<>[]().。")
    return DEVICE_LINE.fullmatch(line) is not None


def begins_footer(line: str) -> bool:
    """Return True for the first line of a legal notice."""
    return FOOTER.fullmatch(line.strip(" *_-")[: 2 * LONGEST_LINE]) is not None


def is_afterthought(line: str) -> bool:
    return AFTERTHOUGHT.fullmatch(line[:LONGEST_LINE]) is not None
