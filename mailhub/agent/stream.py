"""The only writer of the stream: text as it arrives, the events of tools, the end.

The format is server-sent events.

A client reads a `data:` line with a JSON object as an event of ours, and `[DONE]` as the end. The
model's text must never look like either, so a piece that begins like one is written as two.
"""

import json
from collections.abc import Iterator

CONTENT_TYPE = "text/event-stream"
END = "event: end\ndata: [DONE]\n\n"
SHORT = 200


def text(piece: str) -> str:
    """Return a piece of text; each line break starts another `data:` line of the same event.

    Returns an empty text for an empty piece.
    """
    return "".join(
        _event(part) for part in _split_start(piece.replace("\r\n", "\n").replace("\r", "\n"))
    )


def tool_start(tool: str, about: str = "") -> str:
    return _tool("tool_start", tool, f"🔧 running: {tool}{' ' if about else ''}{about[:SHORT]} …")


def tool_end(tool: str) -> str:
    return _tool("tool_end", tool, "✅ done")


def tool_error(tool: str, short: str) -> str:
    return _tool("tool_error", tool, f"⚠️ {tool} failed: {short[:SHORT]}")


def _tool(event: str, tool: str, said: str) -> str:
    return (
        f"data: {json.dumps({'text': said, 'event': event, 'tool': tool}, ensure_ascii=False)}\n\n"
    )


def _event(data: str) -> str:
    return "".join(f"data: {line}\n" for line in data.split("\n")) + "\n"


def _split_start(piece: str) -> Iterator[str]:
    begins = 0
    for place, letter in enumerate(piece):
        if letter in "{[":
            yield piece[begins : place + 1]
            begins = place + 1
        elif not letter.isspace():
            break
    if piece[begins:]:
        yield piece[begins:]
