"""The search for orders to a machine in foreign mail, in English, German and Chinese. Pure.

A match is a sign and no proof: text for people may look like an order, and an order may look like
other text.
"""

import re

ORDERS = (
    # Orders to ignore earlier instructions.
    r"(?<!not )(?<!n['’]t )(?<!never )\b(?:ignore|disregard|forget|override|bypass)\b"
    r"(?:(?!\b(?:my|our|his|her)\b)[^.\n]){0,40}"
    r"\b(?:previous|prior|above|earlier|preceding|all|any|your|system)\b(?:(?!\b(?:my|our|his|her)\b)[^.\n]){0,30}"
    r"\b(?:instructions?|prompts?|directives?|guidelines|programming|safety rules)\b",
    r"(?<!nicht )\b(?:ignorier(?:e|en sie|t)|vergiss|vergessen sie|missachte(?:n sie)?)\b"
    r"(?:(?!\b(?:nicht|mein\w*|unser\w*)\b)[^.\n]){0,40}"
    r"\b(?:vorherigen?|bisherigen?|obigen?|früheren?|vorangegangenen?|vorigen?|alle|deine)\b"
    r"(?:(?!\b(?:mein\w*|unser\w*)\b)[^.\n]){0,30}\b(?:anweisung(?:en)?|instruktion(?:en)?|prompts?|systemvorgaben)\b",
    r"\b(?:vorherigen?|bisherigen?|obigen?|früheren?|vorangegangenen?)\s+(?:anweisungen|instruktionen|prompts)\b"
    r"(?:(?!\bnicht\b)[^.\n]){0,30}\b(?:ignorieren|vergessen|missachten|außer acht)\b",
    r"(?<!不要)(?<!别)(?<!勿)(?<!不)(?:忽略|无视|忘记|忘掉|忽視|無視|忘記)(?:(?!我|我们|我們)[^。\n]){0,12}"
    r"(?:之前|以前|先前|上面|上述|以上|前面|所有|你的)[^。\n我]{0,12}(?:指令|指示|提示词|提示詞|系统设定|系統設定)",
    # Claims that the reader is a machine.
    r"\byou are (?:now |from now on )?(?:an? |the |my )?(?:AI|LLM|large language model|language model|chatbot)\b",
    r"\bdu bist (?:jetzt |nun |ab jetzt |ab sofort )?(?:eine?|der|die|mein) (?:KI|Sprachmodell|Chatbot)\b",
    r"你(?:现在|現在)?是(?:一个|一個|一名|个)?(?:AI|人工智能|人工智慧|大?语言模型|大?語言模型|聊天机器人|聊天機器人)",
    # Texts addressed to the machine.
    r"\b(?:attention|note to|instructions? (?:for|to)|message (?:for|to)|dear)[:,]?\s+(?:the |any |all )?"
    r"(?:LLMs?|language models?|AI (?:assistant|agent|model|system)s?|chatbots?|automated (?:assistants?|agents?))\b",
    r"\b(?:achtung|anweisung(?:en)? (?:für|an)|hinweis (?:für|an)|nachricht (?:für|an)|liebe)[:,]?\s+"
    r"(?:die |den |das |alle )?(?:KI-(?:Assistent|Agent|Modell|System)\w*|Sprachmodelle?|Chatbots?|KI\s*:)",
    r"(?:致|给|給|请|請)(?:所有)?(?:AI|人工智能|人工智慧|智能)(?:助手|助理|代理)",
    # Orders to keep something from the user.
    r"\b(?:do not|don['’]t|never|without) (?:tell|telling|inform|informing|mention|mentioning|alert|alerting|notify)\b"
    r"[^.\n]{0,30}\b(?:the|your) (?:user|human|owner|operator)\b[^.\n]{0,20}\b(?:this|these|it)\b",
    r"\b(?:sag|sage|verrate|erzähle|teile|melde)\b[^.\n]{0,30}\b(?:dem|deinem|deiner) "
    r"(?:nutzer|benutzer|anwender|nutzerin)\b[^.\n]{0,30}\bnichts?\b",
    r"(?:不要|别|勿)(?:告诉|告知|告訴|通知)[^。\n]{0,6}(?:用户|使用者|用戶|主人)[^。\n]{0,12}(?:此|这|這|本)",
    # Orders to reveal the prompt or to use a tool.
    r"\b(?:reveal|print|repeat|show|output|leak|send)\b[^.\n]{0,30}"
    r"\b(?:system|developer|initial|hidden) (?:prompt|instructions)\b",
    r"\b(?:zeige?|verrate|wiederhole|sende)\b[^.\n]{0,30}\b(?:system-?prompt|systemanweisung(?:en)?)\b",
    r"(?:显示|顯示|输出|輸出|告诉我|告訴我|重复|重複|泄露)[^。\n]{0,12}(?:系统提示|系統提示|提示词|提示詞)",
    r"\b(?:use|call|invoke|execute)\b[^.\n]{0,20}\b(?:send_email|forward_email|reply_email|send_draft|search_emails|"
    r"read_email|m365_run_command)\b",
    # The marks of a model's own conversation format.
    r"<\|(?:im_start|im_end|system|user|assistant|endoftext|eot_id)\|>|\[/?INST\]|<</?SYS>>|</?(?:system|assistant)_?prompt>",
    # Only blanks of the same line, and possessive: a mail of empty lines would take quadratic time.
    r"(?m)^[^\S\n]*+(?:#{2,}+\s*+)?(?:system|assistant)\s*+(?:message|prompt)?\s*+:\s*+you (?:are|must|will|should)\b",
)
FINDER = re.compile(
    "|".join(f"(?:{order.removeprefix('(?m)')})" for order in ORDERS), re.IGNORECASE | re.MULTILINE
)
# Between letters, these hide a word from a pattern but not from a model.
BETWEEN = re.compile("[\u200b-\u200d\u2060\ufeff\u00ad]")


def found_in(text: str) -> bool:
    return FINDER.search(BETWEEN.sub("", text)) is not None
