"""The lines that connect a program, on every page that shows them."""

from typing import Any

from django import template

from accounts.views.programs import lines_context

register = template.Library()


@register.inclusion_tag("accounts/program_lines.html")
def program_lines(secret: str = "") -> dict[str, Any]:
    """Render how each program is connected; with `secret`, ready to paste."""
    return lines_context(secret)
