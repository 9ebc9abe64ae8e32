"""Facts about the elements of a parsed page, for all its readers. Pure."""

from turbohtml import Element

# Their content is no text of the page in any browser.
NEVER_SHOWN = frozenset("script style title template iframe noembed noframes".split())


def attributes_of(element: Element) -> dict[str, str]:
    """Return the attributes of an element, each as one text."""
    return {
        name: value if isinstance(value, str) else " ".join(value or ())
        for name, value in element.attrs.items()
    }
