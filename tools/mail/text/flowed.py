"""Text with soft line ends, as format=flowed has them. Pure, linear. RFC 3676."""

SIGNATURE = "-- "


def join_lines(text: str, *, deletes_blank: bool) -> str:
    """Return the text with its paragraphs on one line each.

    A line that ends in a blank goes on in the next one with the same quote marks. With
    `deletes_blank` (DelSp=yes) that blank is not part of the text.
    """
    pieces: list[str] = []
    open_depth = -1  # of a line that goes on
    for line in text.split("\n"):
        depth = len(line) - len(line.lstrip(">"))
        content = line[depth:].removeprefix(" ")
        goes_on = content.endswith(" ") and content != SIGNATURE
        if goes_on and deletes_blank:
            content = content[:-1]
        if depth == open_depth and content != SIGNATURE:
            pieces.append(content)
        else:
            pieces.append(f"\n{'>' * depth} {content}" if depth else f"\n{content}")
        open_depth = depth if goes_on else -1
    return "".join(pieces)[1:]
