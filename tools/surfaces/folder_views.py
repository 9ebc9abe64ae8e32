"""The page on which a manager chooses the folders of a mailbox, and who saves copies in Sent."""

from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from accounts.access.auth import caller_of_session
from accounts.access.roles import get_mailbox
from accounts.access.signed_in import AuthenticatedRequest, signed_in_form
from accounts.infra.problems import Problem
from accounts.models import Mailbox, Role
from tools.reading.folders import Folders, choose_folders, read_folders


class FoldersForm(forms.Form):
    """The folders of two roles, and who saves the copy in Sent."""

    sent_folder = forms.ChoiceField(label=gettext_lazy("Sent mail is in"), required=False)
    drafts_folder = forms.ChoiceField(label=gettext_lazy("Drafts are in"), required=False)
    sent_copies = forms.ChoiceField(
        label=gettext_lazy("Copy of each sent mail"),
        choices=Mailbox.SentCopies.choices,
        widget=forms.RadioSelect,
    )

    def __init__(self, *args: Any, folders: Folders, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.folders = folders
        listed = [(folder.id, folder.name) for folder in folders.listed]
        for role in ("sent", "drafts"):
            name = folders.by_role.get(role)
            automatic = (
                _("Automatic: %(folder)s") % {"folder": name}
                if name
                else _("Automatic: mailhub creates it when it is first needed")
            )
            choices = [("", automatic), *listed]
            self.fields[f"{role}_folder"].choices = choices  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        if not self.errors and self._name_of("sent") == self._name_of("drafts") is not None:
            raise forms.ValidationError(_("Choose two different folders."))
        return given

    def _name_of(self, role: str) -> str | None:
        """Return the folder that the role has with this choice; None: mailhub creates it."""
        names = {folder.id: folder.name for folder in self.folders.listed}
        return names.get(self.cleaned_data[f"{role}_folder"], self.folders.by_role.get(role))


@signed_in_form
def folders(request: AuthenticatedRequest, mailbox_id: UUID) -> HttpResponse:
    """Show the folders that mailhub writes to, and change them."""
    context: dict[str, Any] = {}
    try:
        mailbox = get_mailbox(caller_of_session(request), str(mailbox_id), need=Role.MANAGER)
        context["mailbox"] = mailbox
        found = read_folders(mailbox, request.user)
    except Problem as problem:
        if problem.code == "not_found":
            raise Http404 from None
        context["problem"] = problem
        return render(request, "tools/folders.html", context, status=problem.status)
    chosen = {
        name: getattr(mailbox, name) for name in ("sent_folder", "drafts_folder", "sent_copies")
    }
    form = FoldersForm(request.POST or None, folders=found, initial=chosen)
    if request.method == "POST" and form.is_valid():
        choose_folders(mailbox, person=request.user, **form.cleaned_data)
        messages.success(request, _("Folders saved."))
        return redirect("mailbox", mailbox.pk)
    missing = [
        name
        for name in (mailbox.sent_folder, mailbox.drafts_folder)
        if name and name not in {folder.id for folder in found.listed}
    ]
    context |= {"form": form, "missing": missing}
    return render(request, "tools/folders.html", context, status=422 if form.errors else 200)
