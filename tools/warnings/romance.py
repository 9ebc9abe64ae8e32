"""The words of `mentions` in French and Spanish. Pure."""

import re

THIS_MAIL = (
    r"(?:ce|cet|cette|mon|notre|présente?)\s+(?:e-?mail|mail|message|courriel|envoi|lettre|réponse)"
)
ESTE = r"(?:este|esta|mi|nuestro|la\s+presente)"
DOCUMENT = (
    r"(?:documents?|fichiers?|devis|contrats?|factures?|tableaux?|formulaires?|rapports?|plans?"
    r"|planning|liste|offre)"
)
# As in `mentions`: words that announce an attachment, and words that show another meaning.
ANNOUNCEMENTS = (
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
        rf"\b(?:est|sont)\s+jointe?s?\s+(?:à|au)\s+{THIS_MAIL}|\b(?:est|sont)\s+jointe?s?\s*(?:[.!]|\Z)"
        rf"|\b(?:le|la|les|du)\s+{DOCUMENT}\s+jointe?s?\b(?!\s+(?:à|au|aux)\s+(?!{THIS_MAIL}))",
        r"\b(?:si|lorsque|quand|avant\s+que)\b",
    ),
    (
        rf"(?:\A|[.:;,]\s*|\b(?:le|les|te|os|se\s+l[oa]s?)\s+)adjunt(?:o|amos)\b(?!\s+(?:al?\b(?!\s+{ESTE})|de\b))"
        r"|\b(?:he|hemos)\s+adjuntado\b|\bse\s+adjuntan?\b",
        r"\b(?:si|cuando)\s+se\s+adjunta|\bque\s+se\s+adjunta\w*\s+(?:al?|en)\b",
    ),
    (
        r"\b(?:envío|enviamos|mando|mandamos|remito|remitimos|va|van|paso|encontrar(?:á|ás|éis|án))\b[^\n]{0,60}"
        rf"\badjunt[oa]s?\b(?!\s+al?\b(?!\s+{ESTE}))"
        r"|\ben\s+(?:el|los)\s+(?:(?:archivo|documento|fichero)s?\s+)?adjuntos?\b"
        r"|\b(?:ver|véase|vea|consulte|revise|revisa)\s[^\n]{0,30}\badjunt[oa]s?\b"
        rf"|\best[áa]n?\s+adjunt[oa]s?\b(?!\s+al?\b(?!\s+{ESTE}))",
        r"\b(?:director|directora|secretari[oa]|profesora?|fiscal|jef[ea])\s+adjunt[oa]\b|\b(?:estaba|era|máximo|límite)\b",
    ),
    (
        r"(?:\A|[.:]\s*)anexo\s+(?:el|la|los|las|le|les|te|un|una|encontrar\w*)\b"
        r"|\b(?:envío|enviamos|remito|remitimos|mando)\b[^\n]{0,40}\b(?:como|en)\s+anexo\b(?!\s+(?:del?|al?)\b)",
        r"(?!)",
    ),
)
# It speaks of an attachment of somebody else, an earlier one or a later one.
THEIRS = re.compile(
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
FOR_THE_READER = re.compile(
    r"\b(?:veuillez\s+trouver|vous\s+trouverez|tu\s+trouveras)\b|\b(?:je|nous)\s+(?:vous|te)\s+(?:joi|envo|transmet|adress|fai)(?!\w*r(?:ai|ons)\b)"
    r"|\bencontrar(?:á|ás|éis|án)\b|\b(?:le|les|te|os)\s+adjunt|\badjunto\s+(?:le|les|te|os)\b",
    re.IGNORECASE,
)
