"""The lines that connect a program, on every page that shows them."""

from django import template

from accounts.views.programs import lines_context

register = template.Library()
register.inclusion_tag("accounts/program_lines.html", name="program_lines")(lines_context)
