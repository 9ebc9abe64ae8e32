"""The addresses of all pages and endpoints."""

from allauth.account.decorators import secure_admin_login
from django.contrib import admin
from django.urls import include, path
from django.views.decorators.http import require_safe
from django.views.generic import RedirectView

from mailhub import shell
from mailhub.first_run.welcome import welcome
from mailhub.middleware.second_factor import second_factor
from mailhub.operations import health, metrics
from tools.surfaces.rest import download, make_api, reference

admin.autodiscover()
# The admin uses the same sign-in as all pages, second factor included. Its own forms count no wrong
# passwords, and record and mail nothing: that for a sign-in is never read, not even of staff.
admin.site.login = require_safe(secure_admin_login(admin.site.login))  # type: ignore[method-assign,no-untyped-call]
admin.site.password_change = RedirectView.as_view(pattern_name="account_change_password")  # type: ignore[method-assign,assignment]

handler500 = "mailhub.faults.answer_fault"

urlpatterns = [
    # First, because each path is compared with the hundred of the pages otherwise.
    path("api/v1/docs", reference, name="api_docs"),
    path("api/v1/", make_api().urls),
    path("", include("approvals.urls")),
    path("", include("accounts.urls")),
    path("", include("mailhub.agent.urls")),
    path("", include("tools.surfaces.urls")),
    path("files/<str:secret>", download, name="file"),
    path("account/second-factor/", second_factor, name="second_factor"),
    path("welcome/", welcome, name="welcome"),
    path("sw.js", shell.service_worker, name="service_worker"),
    path("offline/", shell.offline, name="offline"),
    path("admin/", admin.site.urls),
    path("healthz", health.healthz),
    path("readyz", health.readyz),
    path("statusz", health.statusz),
    path("metrics", metrics.metrics),
]
