"""Warnings about slips of a program: places that nobody filled in, and words of the model itself."""

import re

from accounts.infra.texts import translatable
from approvals.core.types import PreviewWarning
from tools.mail.message.compose import OutgoingMessage
from tools.warnings.context import JUDGED_CHARACTERS, Context, own_words

FIELD = r"""
    (?:(?:your|his|her|their|client|customer|recipient|company|contact|sender|full|first|last|sur)['’]?s?\s?)*
    (?:name|company|position|title|date|address|amount|phone(?:\snumber)?|link|signature|time|product|topic)
    |(?:ihr\s|dein\s|firmen|vor|nach|kunden)?name|datum|firma|betrag|anrede|adresse|telefonnummer
    |(?:votre\s|pr[ée])?nom|entreprise|montant|adresse|téléphone
    |(?:su\s|tu\s)?nombre|apellidos?|fecha|empresa|importe|dirección|teléfono
    |(?:您的|你的|客户|收件人)?(?:姓名|名字|公司名?称?|日期|金额|电话|职位)
    |(?:お|ご)?(?:名前|氏名|会社名|日付|金額|電話番号|宛名)
"""
PLACEHOLDERS = (
    r"\{\{[^{}\n]{1,60}\}\}",
    r"\{%[^%\n]{1,60}%\}",
    r"<%[^%\n]{1,60}%>",
    r"\$\{[A-Za-z_][\w.]{0,40}\}",
    r"(?<![%\w])%[A-Z][A-Z_]{2,30}%",
    rf"(?xi)[\[［<]\s*(?:{FIELD})\s*[\]］>]",
    r"(?i)[\[<](?:insert|enter|add|fill\sin|einfügen|hier\seinsetzen|insérer|insertar|请填写|填入|ここに)[^\[\]<>\n]{0,40}[\]>"
    r"]",
    r"\b(?:TODO|FIXME)\b\s?[:(–—-]",
    r"(?<![○〇◯])[○〇◯]{2,9}\s?(?:様|さん|株式会社)|\bXX+(?:先生|女士|经理|公司)",
    r"(?i)\blorem ipsum\b",
)
_PLACEHOLDER = tuple(re.compile(pattern) for pattern in PLACEHOLDERS)

ARTIFACTS = (
    r"\bas an? (?:large )?(?:ai|artificial intelligence)[- ](?:language )?(?:model|assistant)\b",
    r"\bas a (?:large )?language model\b",
    r"\bi(?:'m| am) (?:just )?an? (?:ai|large) (?:language )?(?:model|assistant)\b",
    r"\bi (?:can(?:no|')t|am unable to) (?:fulfil?l|comply with|assist with) (?:this|that|your) request\b",
    r"\bas of my (?:last |latest )?(?:knowledge|training) (?:cut-?off|update)\b",
    r"\bhere(?:'s| is) (?:a|an|the|your) (?:\w+ ){0,3}(?:draft|version|rewrite) of "
    r"(?:the|your|an?) (?:e-?mail|message|reply)\b",
    r"\bhere(?:'s| is) (?:a|an|the|your) (?:draft|revised|polished|rewritten|suggested) "
    r"(?:e-?mail|message|reply|response)\b",
    r"\bfeel free to (?:adjust|customi[sz]e|modify|tweak|edit) (?:this|the) (?:draft|e-?mail|message|reply|template)\b",
    r"\blet me know if you(?:'d| would) like (?:me to "
    r"(?:adjust|change|revise|rewrite|shorten) |any changes to )(?:this|the|it)\b",
    r"\bals (?:ein )?(?:großes )?(?:ki[- ]?(?:sprachmodell|modell|assistent)|sprachmodell)\b",
    r"\bhier ist (?:ein|der|dein|ihr) (?:überarbeitete[rn]? )?entwurf "
    r"(?:der|einer|deiner|ihrer|für (?:die|eine|deine|ihre)) (?:e-?mail|nachricht|antwort)\b",
    r"\ben tant qu(?:e |['’])(?:ia\b|intelligence artificielle|modèle de langage|assistant virtuel)",
    r"\bvoici (?:un|le|votre) (?:brouillon|projet) (?:d['’]e-?mail|de (?:courriel|réponse|message))",
    r"\bcomo (?:un )?(?:modelo de lenguaje|asistente de ia|inteligencia artificial)\b",
    r"\baquí (?:tienes|está) (?:un|el|tu) borrador (?:de|del|para) (?:correo|la respuesta|respuesta|mensaje)",
    r"作为(?:一个|一名|一款)?(?:ai|人工智能|大型?语言模型|语言模型)",
    r"以下是(?:为您|为你|我为您)?(?:起草|撰写|润色|修改后?)的?(?:邮件|回复)",
    r"(?:ai|人工知能|大規模言語モデル|言語モデル)(?:アシスタント|モデル)?として(?:、|は)",
    r"以下(?:が|は)(?:、)?(?:ご依頼の)?(?:メール|返信)の?(?:文案|下書き|ドラフト)",
)
_ARTIFACT = re.compile("|".join(ARTIFACTS), re.IGNORECASE)
# A model that was asked for a mail often answers with its headers too.
_OWN_HEADER = re.compile(
    r"\A\s*(?:\*\*)?(?:subject|betreff|objet|asunto|主题|件名)(?:\*\*)?\s?[:：]", re.IGNORECASE
)
SHOWN = 40


def unfilled_placeholder(message: OutgoingMessage, context: Context) -> PreviewWarning | None:
    """Return a warning about a place of a template that was not filled in."""
    written = _written(message, context)
    found = next((hit for each in _PLACEHOLDER if (hit := each.search(written))), None)
    if found is None:
        return None
    return PreviewWarning(
        code="unfilled_placeholder",
        title=translatable("Something is not filled in."),
        text=translatable("It contains “%(place)s”.", place=found[0][:SHOWN]),
        severity="risk",
    )


def model_artifact(message: OutgoingMessage, context: Context) -> PreviewWarning | None:
    """Return a warning about words that a language model said to its user, not to the recipient."""
    words = own_words(message, context)
    found = _ARTIFACT.search(f"{message.request.subject}\n{words}") or _OWN_HEADER.search(words)
    if found is None:
        return None
    return PreviewWarning(
        code="model_artifact",
        title=translatable("Words of the AI itself."),
        text=translatable(
            "“%(words)s” was said to you, not to the recipient.", words=found[0].strip()[:SHOWN]
        ),
        severity="risk",
    )


def _written(message: OutgoingMessage, context: Context) -> str:
    return f"{message.request.subject}\n{own_words(message, context)}"[:JUDGED_CHARACTERS]
