"""The search for a sentence that announces an attachment, in English, German, French, Spanish,
Chinese and Japanese. Pure.

A request for somebody else's attachment, a quoted mail and a mention of an annex are no
announcement.
"""

import re
from collections.abc import Sequence

SENTENCE = re.compile(r"[^.!?。！？\n]+[.!?。！？\n]?")
# The lines with which mail programs begin a quote. It follows until the end.
QUOTE_BEGINS = (
    re.compile(
        r"-{3,10} ?(?:original message|ursprüngliche nachricht|originalnachricht|weitergeleitete nachricht"
        r"|forwarded message|message d['’]origine|message transféré|mensaje original|mensaje reenviado"
        r"|原始邮件|原始郵件|转发邮件) ?-{0,10}",
        re.IGNORECASE,
    ),
    re.compile(
        r"(?:(?:on|am|le|el) .{1,400}\b(?:wrote|schrieb[^:]{0,100}|a écrit|escribió)[ \u00a0]?"
        r"|[在于]? ?\d{4} ?[年/-].{1,200}[写寫]道 ?)[:：]",
        re.IGNORECASE,
    ),
)
QUOTED_FROM = re.compile(r"(?:from|von|de|发件人|寄件者)\*{0,2}[ \u00a0]?[:：]", re.IGNORECASE)
QUOTED_DATE = re.compile(
    r"(?:sent|date|gesendet|datum|envoyé|enviado(?: el)?|fecha|发送时间|日期|寄件日期)\*{0,2}[ \u00a0]?[:：]",
    re.IGNORECASE,
)
LINE_CHARACTERS = 600  # of the first line of a quote
MAIL = r"(?:this|these|my|the\ (?:e-?mail|mail|message))"
GERMAN_MAIL = r"(?:e-?mail|mail|nachricht|schreiben)"
# Things that are attached to other things, or enclosed by them.
THINGS = (
    r"(?:garage|house|building|cables?|labels?|sensors?|brackets?|hoses?|handles?|plugs?|housing|wires?|ropes?"
    r"|barn|villa"
    r"|bathroom|balcony|area|space|garden|courtyard|terrace|patio|porch|pool|parking"
    r"|houses|rooms?|trailer|annex|office|hook|strings?|importance|value|weight)"
)
# An annex of another document: "im Anhang des Vertrags", "im Anhang II", "im Anhang nach § 285".
ANNEX = (
    rf"(?!\s+(?:[ivx]{{1,5}}\b|\d|[a-h]\b|des\b|eine[rs]\b|von\b|nach\b|gemäß\b|(?:zu|zur"
    rf"|zum)\b(?!\s+diese[rm]\s+{GERMAN_MAIL})"
    r"|der\s+\w{0,40}(?:ung|ion|heit|keit|schaft|ie|ik|tät|norm|linie|arbeit|satz|bücher|agb|dsgvo)\b))(?![^\n]{0,60}§)"
)
DOCUMENTS = (
    r"(?:\w{0,30}(?:rechnung|angebot|vertrag|unterlagen?|datei|dateien|dokumente?|formular|entwurf|übersicht|liste"
    r"|tabelle|bericht|protokoll|schreiben|pdf|präsentation|vereinbarung|auszug|bestätigung|muster|nachweise?))"
)
# Each row: words that announce an attachment, and words of the same sentence that show another
# meaning.
ANNOUNCEMENTS = (
    (
        r"\(attached\)|\bpfa\s+(?:the|our|my|your)\b|(?:\A|, )attached\s+(?:the|a|our|my)\b",
        r"(?!)",
    ),
    (
        r"\b(?:find|see)\b[^\n]{0,30}\b(?:attached|enclosed)\b|\bfind\b[^\n]{0,30}\battachments?\b"
        r"|\bsee\s+(?:the\s+|my\s+|our\s+)?attachments?\b",
        r"\b(?:did|do|could|can|have|were)\s+(?:you|anyone|anybody|they|we|users)\b[^\n]{0,20}\b(?:find|see|seen)\b"
        r"|\b(?:users|people|customers|everyone)\s+(?:can\s+)?(?:find|see)\b|\battachments?\s+(?:tab|list"
        r"|folder|view|under)\b"
        rf"|\b(?:attached|enclosed)\s+(?:[\w-]+\s+)?{THINGS}\b",
    ),
    (
        r"\b(?:i|we)(?:['’]ve|\ have|['’]m|\ am|['’]re|\ are)?\s+(?:also\s+)?"
        r"(?:attach(?:ed|ing)?|enclos(?:e|ed|ing))\b",
        rf"\b(?:am|are|['’]m|['’]re)\s+attached\s+to\b|\b(?:attach|enclos)\w*\s+(?:\w+\s+){{0,3}}{THINGS}\b"
        rf"|\battach\w*\s[^\n]{{0,60}}\bto\s+(?!{MAIL})(?:the|a|an|each|every|your|our|its|it)\b[^\n]{{0,20}}"
        r"\b(?:wall|pump|housing|frame|ceiling|ticket|task|card|case|order|issue|record|calendar|invitation|invite"
        r"|event|folder|project|page|box|package|parcel|door|machine|form|request|application|report)\b",
    ),
    (
        rf"\b(?:is|are)\s+(?:attached|enclosed)\b(?!\s+(?:by|with|in|within)\b|\s+to\b(?!\s+{MAIL}))",
        r"\b(?:if|when|whenever|unless|whether|until|once|after|as\s+soon\s+as|make\s+sure|ensure|check|verify)\b"
        r"[^\n]{0,60}\b(?:is|are)\s"
        rf"|\b{THINGS}\s+(?:is|are)\b",
    ),
    (
        r"(?<!\bof )\b(?:attached|enclosed)\s+"
        r"(?:is|are|you|please|files?|documents?|pdf|invoices?|reports?|contracts?|offer|quote)\b",
        r"\b(?:are|were|is|was)\s+(?:kept|deleted|limited|stored|scanned|supported)\b|\b(?:supports?|accepts?"
        r"|allows?)\b",
    ),
    (
        rf"\b(?:the|as)\s+attached\b(?!\s+to\b|\s+(?:\w+\s+)?{THINGS}\b)",
        r"\bas\s+attached\s+(?:as|by)\b|\battached\s+\w+\s+to\s+the\s+(?:agreement|contract|lease|policy|deed)\b",
    ),
    (
        r"\bin\s+the\s+attachments?\b"
        r"(?!\s+(?:tab|list|folder|view|section|panel|column|settings|theory|point|names?|titles?|size)\b)",
        r"\b(?:was|were)\b",
    ),
    (
        r"\banbei\b",
        r"(?!)",
    ),
    (
        rf"\bsiehe\s+anhang\b{ANNEX}|\b(?:im|als)\s+anhang\b{ANNEX}",
        r"\b(?:war|waren|wurde|wurden|befand|befanden|stand|standen|gilt|gelten|anzugeben|auszuweisen"
        r"|jahresabschluss\w*|bilanz)\b"
        r"|\b(?:senden|schicken|antworten|übermitteln|reichen)\s+sie\b[^\n]{0,80}\bals\s+anhang\b",
    ),
    (
        r"\bangehängt\w*",
        r"\bans?\s(?:(?:den|die|das|der|dem|einen|eine|ein)\s)?\w{0,20}(?:wagen|zug|lok|traktor|lkw|auto|ende"
        r"|liste|haken)\b"
        r"|\b(?:anhänger|waggons?|wagen|auflieger|war|waren|wurde|wurden)\b"
        r"|\bam\s+\w+\s+angehängt|\b(?:hast\s+du|habt\s+ihr|haben\s+sie)\b[^\n]{0,80}\bangehängt"
        r"|\bangehängt\s+ha(?:s|b)t\b",
    ),
    (
        r"\bbeigefügt\w*",
        rf"\bdem\s+(?!{GERMAN_MAIL}\b)\w+[^\n]{{0,40}}\bbeigefügt|\b(?:war|waren|wurde|wurden|sein|muss|müssen"
        rf"|ist\s+dem)\b"
        r"|\bbeigefügte\w*\s+(?:etikett\w*|schlüssel|schrauben?|kabel|werkzeuge?|batterien?)\b"
        r"|\breichen\s+sie\b[^\n]{0,80}\bmit\s+beigefügte[mn]\b"
        r"|\bder\s+(?:lieferung|sendung|ware|maschine|packung|verpackung|steuererklärung"
        r"|bewerbung)\b[^\n]{0,40}\bbeigefügt",
    ),
    (
        rf"\b(?:bei|an)liegend(?:\s+(?:finden|erhalten|erhältst|sende\w*|übersende\w*|schicke\w*|der|die|das"
        rf"|ein\w*|unser\w*)\b"
        rf"|e[nrsm]?\s+{DOCUMENTS}\b)",
        r"\b(?:eng|locker|grundstück\w*|gerät|paket|karton)\b",
    ),
    (
        rf"\bin\s+der\s+anlage\b{ANNEX}[^\n]{{0,40}}\b(?:finden\s+sie|findest|sende|senden\s+wir|schicke|schicken\s+wir"
        r"|erhalten\s+sie|erhältst|übersende\w*)\b"
        rf"|\b(?:finden\s+sie|findest|sende|senden\s+wir|schicke|schicken\s+wir|erhalten\s+sie|erhältst|übersende\w*)\b"
        rf"[^\n]{{0,60}}\bin\s+der\s+anlage\b{ANNEX}",
        r"\b(?:techniker|monteur\w*|vor\s+ort|schaltschrank)\b",
    ),
    (
        r"(?:见|見|参见|查看|查收|请看|請看)\s*附件(?!条)|附件(?:是(?!否)|为(?!必)|為(?!必)|中|里|裡|内|內)",
        r"(?:合同|协议|協議|法规|条例|办法|规定|标准|章程|法)的?附件|打不开|无法打开|请(?:提供|补充)"
        r"|附件(?:为|為|是)本(?:合同|协议|法|办法)",
    ),
    (
        r"(?:随信|隨信|随函|隨函)附|(?<![出发發实呈])[现兹]附(?![近着著属加和带])|(?<!独)(?<!獨)特附(?![加近着属带])"
        r"|(?<![吸依粘黏])附上",
        r"请[^\n，,]{0,8}附上|請[^\n，,]{0,8}附上|(?:需|须|必须|应)[^\n，,]{0,6}附上",
    ),
)
JAPANESE = (
    (
        r"添付(?:(?:いた|致)?し(?:ます|ました|ております|ています)|申し上げ)"
        r"|添付(?:ファイル|資料|書類)?(?:を|にて|の)[^\n。]{0,20}(?:ご確認|ご覧|ご査収|お送り|送付)|(?:添付|別添)の(?:通り|とおり)",
        r"添付(?:され|して(?:くだ|下|いただ))|いただいた|頂いた|くださった|再送|先日|前回",
    ),
)
FRENCH_MAIL = (
    r"(?:ce|cet|cette|mon|notre|présente?)\s+(?:e-?mail|mail|message|courriel|envoi|lettre|réponse)"
)
SPANISH_MAIL = r"(?:este|esta|mi|nuestro|la\s+presente)"
FRENCH_DOCUMENT = (
    r"(?:documents?|fichiers?|devis|contrats?|factures?|tableaux?|formulaires?|rapports?|plans?"
    r"|planning|liste|offre)"
)
# The same in French and Spanish.
ROMANCE = (
    (
        r"\bci-joint(?:e|s|es)?\b",
        r"\b(?:était|étaient)\b",
    ),
    (
        r"\ben\s+pièces?\s+jointes?\b"
        r"|\b(?:voir|voyez|trouver(?:ez|as)?|consulte[rz])\b[^\n]{0,40}\bpièces?\s+jointes?\b|(?:\A|\s)P\.?J\.?\s?:",
        r"\b(?:était|étaient|limité\w*|formats?|taille|maximum)\b",
    ),
    (
        r"\b(?:trouver(?:ez|as)?|envoie|envoyons|transmets|transmettons|adresse|adressons)\b[^\n]{0,40}\ben\s+annexe\b"
        r"(?!\s+(?:de|du|des|au|aux|[ivx]{1,5}|\d)\b|\s+d['’])"
        r"|\A\s*en\s+annexe\b(?!\s+(?:de|du|des|au|aux|[ivx]{1,5}|\d)\b|\s+d['’])",
        r"(?!)",
    ),
    (
        r"\bje\s+(?:vous\s+|te\s+|la\s+|le\s+|les\s+)?joins\b|\bnous\s+(?:vous\s+)?joignons\b"
        r"|\b(?:j['’]ai|nous\s+avons)\s+(?:également\s+|aussi\s+)?joint\b",
        r"\b(?:téléphone|voix|remerciements|vœux|soutien|efforts|équipe|groupe|réunion|dossier\s+papier)\b",
    ),
    (
        rf"\b(?:est|sont)\s+jointe?s?\s+(?:à|au)\s+{FRENCH_MAIL}|\b(?:est|sont)\s+jointe?s?\s*(?:[.!]|\Z)"
        rf"|\b(?:le|la|les|du)\s+{FRENCH_DOCUMENT}\s+jointe?s?\b(?!\s+(?:à|au|aux)\s+(?!{FRENCH_MAIL}))",
        r"\b(?:si|lorsque|quand|avant\s+que)\b",
    ),
    (
        rf"(?:\A|[.:;,]\s*|\b(?:le|les|te|os|se\s+l[oa]s?)\s+)adjunt(?:o|amos)\b(?!\s+(?:al?\b(?!\s+{SPANISH_MAIL})|de\b))"
        r"|\b(?:he|hemos)\s+adjuntado\b|\bse\s+adjuntan?\b",
        r"\b(?:si|cuando)\s+se\s+adjunta|\bque\s+se\s+adjunta\w*\s+(?:al?|en)\b",
    ),
    (
        r"\b(?:envío|enviamos|mando|mandamos|remito|remitimos|va|van|paso|encontrar(?:á|ás|éis|án))\b[^\n]{0,60}"
        rf"\badjunt[oa]s?\b(?!\s+al?\b(?!\s+{SPANISH_MAIL}))"
        r"|\ben\s+(?:el|los)\s+(?:(?:archivo|documento|fichero)s?\s+)?adjuntos?\b"
        r"|\b(?:ver|véase|vea|consulte|revise|revisa)\s[^\n]{0,30}\badjunt[oa]s?\b"
        rf"|\best[áa]n?\s+adjunt[oa]s?\b(?!\s+al?\b(?!\s+{SPANISH_MAIL}))",
        r"\b(?:director|directora|secretari[oa]|profesora?|fiscal|jef[ea])\s+adjunt[oa]\b|\b(?:estaba|era|máximo|límite)\b",
    ),
    (
        r"(?:\A|[.:]\s*)anexo\s+(?:el|la|los|las|le|les|te|un|una|encontrar\w*)\b"
        r"|\b(?:envío|enviamos|remito|remitimos|mando)\b[^\n]{0,40}\b(?:como|en)\s+anexo\b(?!\s+(?:del?|al?)\b)",
        r"(?!)",
    ),
)
# It speaks of an attachment of somebody else, an earlier one or a later one.
ROMANCE_THEIRS = re.compile(
    r"""
    \bmerci\s+(?:beaucoup\s+)?pour\b[^\n]{0,80}\bjointe?s?\b
    | \bmerci\s+de\s+(?:m['’]|me\b|nous\b)(?![^\n]{0,120}\b(?:signé|complété|rempli|retourn)\w*)
    | \b(?:pouvez|pourriez|peux|pourrais)[- ](?:vous|tu)\b
        (?![^\n]{0,120}\b(?:signer?|signé\w*|complét\w+|rempli\w*|valider|relire|vérifier)\b)
    | \b(?:votre|vos|ton|ta|tes)\s+(?:\w+\s+)?(?:pièces?|messages?|e-?mails?|mails?|courriels?)\b
    | \bvous\s+(?:m['’]|nous\s+)?(?:avez|aviez)\b | \b(?:reçu|reçue|reçues)\b[^\n]{0,60}\bjointe?s?\b
    | \b(?:enverrai|enverrons|transmettrai|transmettrons|devez|doit|doivent)\b
    | \bgracias\s+por\b[^\n]{0,80}\badjunt | \b(?:recibido|recibí|recibimos)\b[^\n]{0,60}\badjunt
    | \b(?:su|sus|tu|tus|vuestro|vuestra)\s+(?:\w+\s+)?(?:correo|mensaje|adjunto|archivo|fichero)s?\b
    | \b(?:me|nos)\s+(?:puede|podría|puedes|podrías|podéis|pueden)\b
    | \b(?:puede|podría|puedes|podrías|podéis|pueden)\s+(?:re)?(?:enviar|mandar)(?:me|nos)?\b
    | \b(?:mandó|envió|mandaste|enviaste|enviaron|mandaron)\b
    | \b(?:enviaré|enviaremos|mandaré|debe|deben|hay\s+que)\b
    """,
    re.IGNORECASE | re.VERBOSE,
)
# It announces an attachment although it names its reader.
ROMANCE_FOR_THE_READER = re.compile(
    r"\b(?:veuillez\s+trouver|vous\s+trouverez|tu\s+trouveras)\b|\b(?:je|nous)\s+(?:vous|te)\s+(?:joi|envo|transmet|adress|fai)(?!\w*r(?:ai|ons)\b)"
    r"|\bencontrar(?:á|ás|éis|án)\b|\b(?:le|les|te|os)\s+adjunt|\badjunto\s+(?:le|les|te|os)\b",
    re.IGNORECASE,
)
FINDERS = tuple(
    (re.compile(said, re.IGNORECASE), re.compile(other, re.IGNORECASE))
    for said, other in (*ANNOUNCEMENTS, *ROMANCE, *JAPANESE)
)
# The sentence says that this mail has no attachment, or speaks of one that is missing or comes
# later.
MISSING = re.compile(
    r"""
    \b(?:not|no(?!\s*[.:#\d])|without|couldn['’]t|can['’]t|cannot|didn['’]t|don['’]t|doesn['’]t|isn['’]t|aren['’]t
        |wasn['’]t|won['’]t)\b
    | \b(?:nicht|kein\w*|ohne)\b
    | \b(?:pas|aucune?|sans\s+(?:la\s+)?pièce|ning[uú]na?|ningún|sin\s+(?:el\s+|los\s+)?(?:archivo|fichero|adjunto))\b
    | 没有|沒有|没附|沒附|无附件|無附件|未附|不附
    """,
    re.IGNORECASE | re.VERBOSE,
)
# It speaks of an attachment of somebody else, an earlier one or a later one.
THEIRS = re.compile(
    r"""
    \b(?:yours|his|her|their|will|would)\b
    | \byour\b[^\n]{0,80}\b(?:attached|enclosed|attachments?)\b
    | \b(?:in|of|from|with|on|to)\s+your\s+(?:\w+\s+)?(?:e-?mail|mail|message|letter|ticket|request|application)\b
    | \b(?:the\s+environment|in\s+error|intended\s+recipients?)\b
    | \bfrom\s+(?:you|your\s+side|him|her|them)\b
    | \A\s*(?:which|where|wo|welche\w*)\b[^\n]*\?\Z | \A\s*请问
    | \b(?:ihr\w*|dein\w*|eure\w*|deren|werde|werden|würde\w*)\b
    | \byou\s+(?:have\s+)?(?:sent|attached|enclosed|forwarded|mentioned)\b
    | \b(?:thanks|thank\s+you|many\s+thanks|thx|received|downloaded)\b[^\n]{0,40}\b(?:attached|enclosed|attachments?)\b
    | \b(?:danke|dank)\b[^\n]{0,60}\b(?:angehängt|beigefügt|beiliegend|anliegend|anhang)
    | \b(?:send|share|provide)\s+(?:me|us)\s+[^\n]{0,30}\b(?:attached|enclosed|attachments?)\b
        (?![^\n]{0,80}\b(?:back|signed|completed|filled)\b)
    | \b(?:re-?send|send|forward|upload)\b[^\n]{0,60}\b(?:attached|enclosed|attachments?)\b
        [^\n]{0,60}\b(?:again|once\s+more|to\s+(?:me|us))\b
    | \b(?:senden|schicken|übersenden|sende|schick|schicke|könnten|können|kannst)\b[^\n]{0,20}\b(?:sie|du)?\b[^\n]{0,6}
        \b(?:mir|uns)\b(?![^\n]{0,120}\b(?:zurück|unterschrieben|unterzeichnet|ausgefüllt)\b)
    | [您你他她](?:们|們)?(?:的|发|發|寄)|收到|稍后|稍後|之前|上次|重新?[发發]|再[发發]|再[寄传傳]
    """,
    re.IGNORECASE | re.VERBOSE,
)
# It announces an attachment although it names its reader: "Please find your invoice attached".
FOR_THE_READER = re.compile(
    r"\b(?:please|will|['’]ll|can)\s+find\b|\b(?:i|we)(?:['’]ve|\s+have|['’]m|['’]re|\s+are|\s+am)?\s+(?:attach|enclos)"
    r"|\b(?:habe\s+ich|ich\s+habe|haben\s+wir|wir\s+haben)\b[^\n]{0,80}\b(?:angehängt|beigefügt)\b|\banbei\b"
    r"|\bfinden\s+sie\b|\berhalten\s+sie\b|\bfindest\b"
    r"|\b(?:your|ihre?)\s(?:[\w-]+\s){1,4}(?:is|are|ist|sind)\s+(?:attached|enclosed|angehängt|beigefügt)\b"
    r"|请查收附件|請查收附件",
    re.IGNORECASE,
)
# A negation after a comma does not take back such a beginning.
STRONG = re.compile(
    r"(?:anbei|please\sfind|(?:attached|enclosed)\s(?:is|are|please|you)|im\sanhang|beiliegend)\b",
    re.IGNORECASE,
)


def has_announcement(text: str) -> bool:
    """Return True if a sentence of the text says that this mail has an attachment."""
    lines = text.split("\n")
    begins = next((at for at in range(len(lines)) if _begins_quote(lines[at : at + 3])), None)
    lines = lines[:begins]
    own = "\n".join(line for line in lines if not line.lstrip().startswith((">", "|", "＞")))
    return any(_announces(sentence.strip()) for sentence in SENTENCE.findall(own))


def _begins_quote(lines: Sequence[str]) -> bool:
    """Return True if a quote begins at the first of these lines. Programs wrap a long first one."""
    first, *rest = (line[:LINE_CHARACTERS].strip(" \t\r*_\u00a0") for line in lines)
    if not first:
        return False
    second = next((line for line in rest if line), "")
    return any(
        begin.fullmatch(first) or begin.fullmatch(f"{first} {second}") for begin in QUOTE_BEGINS
    ) or bool(QUOTED_FROM.match(first) and QUOTED_DATE.match(second))


def _announces(sentence: str) -> bool:
    if not any(said.search(sentence) and not other.search(sentence) for said, other in FINDERS):
        return False
    clause = sentence.partition(",")[0] if STRONG.match(sentence) else sentence
    if MISSING.search(clause):
        return False
    if THEIRS.search(clause) or ROMANCE_THEIRS.search(clause):
        return any(each.search(sentence) for each in (FOR_THE_READER, ROMANCE_FOR_THE_READER))
    return True
