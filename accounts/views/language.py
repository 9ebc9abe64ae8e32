"""The choice of the language in which a person reads mailhub."""

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.utils import translation
from django.utils.translation import gettext as _

from accounts.access.signed_in import AuthenticatedRequest, signed_in_action
from accounts.forms import LanguageForm


@signed_in_action
def choose(request: AuthenticatedRequest) -> HttpResponse:
    """Store the language of the account; the confirmation is already in it."""
    form = LanguageForm(request.POST)
    if not form.is_valid():
        messages.error(request, _("Choose one of the languages in the list."))
        return redirect("security")
    person = request.user
    person.language = form.cleaned_data["language"]
    person.save(update_fields=["language"])
    translation.activate(person.language or translation.get_language_from_request(request))
    messages.success(request, _("Language saved."))
    return redirect("security")
