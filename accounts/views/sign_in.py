"""The ways in: password, or a one-time link whose GET only shows a button."""

from django.contrib.auth import login
from django.contrib.auth.views import LoginView
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods

from accounts.models import SignInLink

BACKEND = "django.contrib.auth.backends.ModelBackend"


class SignIn(LoginView):
    template_name = "accounts/sign_in.html"
    redirect_authenticated_user = True


@never_cache
@sensitive_variables("secret")
@require_http_methods(["GET", "HEAD", "POST"])
def by_link(request: HttpRequest, secret: str) -> HttpResponse:
    """A mail scanner that follows links signs nobody in: only the form's POST does."""
    if request.method == "POST":
        user = SignInLink.redeem(secret)
        if user is not None:
            login(request, user, backend=BACKEND)
            return redirect("queue")
    usable = SignInLink.usable(secret).exists()
    return render(request, "accounts/sign_in_link.html", {"usable": usable}, status=200 if usable else 410)
