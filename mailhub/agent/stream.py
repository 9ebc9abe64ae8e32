"""The one writer of the stream: text as it comes, what tools do, the end.

Server-sent events, nothing else.

A client takes a `data:` that is a JSON object for an event of ours, and `[DONE]` for the end. What
a model says can therefore never be either: a piece that begins so is written as two.
"""

import json
from collections.abc import Iterator

CONTENT_TYPE = "text/event-stream"
END = "event: end\ndata: [DONE]\n\n"
SHORT = 200


def text(piece: str) -> str:
    """A piece of text; a line break in it is another `data:` line of the same event.

    Nothing for an empty piece.
    """
    return "".join(
        _event(part) for part in _harmless(piece.replace("\r\n", "\n").replace("\r", "\n"))
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


def _harmless(piece: str) -> Iterator[str]:
    start = len(piece) - len(piece.lstrip())
    if piece[start : start + 1] in ("{", "["):
        yield piece[: start + 1]
        piece = piece[start + 1 :]
        yield from _harmless(piece)
    elif piece:
        yield piece
