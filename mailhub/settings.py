"""Django's settings, made from the environment that `mailhub.environment` has checked."""

import logging
import sys
from collections.abc import Callable, Container
from pathlib import Path

import dj_database_url
from csp.constants import NONE, SELF

from accounts.infra.foreign_text import parse_url
from mailhub import environment
from mailhub.environment.home import process_name
from mailhub.operations import logs
from mailhub.sandbox.state import LoopbackServers

ENV = environment.load()
# Each variable of the environment is a setting of the same name, except those that are made below.
globals().update({name: getattr(ENV, name) for name in environment.Environment.model_fields})
BASE_DIR = Path(__file__).resolve().parent.parent

SECRET_KEY = ENV.SECRET_KEY
DEBUG = False
_public = parse_url(ENV.MAILHUB_PUBLIC_URL)
ALLOWED_HOSTS = [*ENV.ALLOWED_HOSTS, _public.hostname or "", "localhost", "127.0.0.1", "[::1]"]
CSRF_TRUSTED_ORIGINS = [f"{_public.scheme}://{_public.netloc}"] if _public.scheme == "https" else []

_loopback = LoopbackServers(ENV.MAILHUB_HOME, ENV.MAILHUB_LOOPBACK_SERVERS)
MAILHUB_LOOPBACK_SERVERS: Container[str] = _loopback
# Which of them serve an address of the sandbox: a person may name these two for it.
MAILHUB_SANDBOX_SERVERS_OF: Callable[[str], tuple[str, str] | None] = _loopback.servers_of
# None: people and programs name no server of this machine. Tests list theirs here.
MAILHUB_LOOPBACK_FOR_PEOPLE: Container[str] = frozenset()
# How long a foreign server may occupy a thread of the web server: the test of a connection, and one
# request by IMAP.
MAILHUB_PROVE_SECONDS = 25.0
MAILHUB_REQUEST_SECONDS = 60.0

# Only for mailhub's own mail, because approved mail goes through the mailbox's provider. There is
# one attempt; the page shows a failure.
SENDS_MAIL = bool(ENV.EMAIL_URL)
SERVER_EMAIL = ENV.DEFAULT_FROM_EMAIL
globals().update(environment.mail_settings(ENV.EMAIL_URL))

# The kinds of action. A kind is found by its path, so that approvals need not import tools.
MAILHUB_KINDS = {
    "mail.send": "tools.sending.kinds.SendMail",
    "mail.reply": "tools.sending.kinds.ReplyMail",
    "mail.forward": "tools.sending.kinds.ForwardMail",
    "m365.command": "tools.m365.RunCommand",
    "mcp.call": "tools.servers.kind.CallTool",
    "draft.change": "tools.sending.held_drafts.ChangeDraft",
}
# These act with the sign-in of the whole server, so only staff may approve them.
MAILHUB_STAFF_KINDS = ("m365.command",)
MAILHUB_WARNINGS = "tools.warnings.SHORT"  # their short forms for the queue, by code
MAILHUB_PROVIDERS = {
    "imap": "tools.providers.imap.ImapProvider",
    "microsoft": "tools.providers.graph.GraphProvider",
    "gmail": "tools.providers.gmail.GmailProvider",
}
# Only the one in MAILHUB_QUEUE is imported, so rq, celery and redis cost nothing if they are not
# used.
MAILHUB_QUEUES = {
    "database": "approvals.queues.channel.DatabaseQueue",
    "rq": "approvals.queues.rq.RqQueue",
    "celery": "approvals.queues.celery.CeleryQueue",
}
# The sweeper's tasks in other packages.
MAILHUB_CHORES = [
    "mailhub.agent.models.purge",
    "tools.providers.handles.purge",
    "tools.sending.command_runs.purge",
    "approvals.outbound.webhooks.outbox.forget_old",
    "approvals.outbound.notifications.outbox.forget_old",
    "accounts.access.quotas.forget_old",
    "accounts.access.keyed_calls.forget_old",
    "accounts.infra.cache.forget_expired",
    "accounts.people.guessing.record_counted",
    "accounts.people.sessions.forget_ended",
    "accounts.oauth.cleanup.forget_old",
]
MAILHUB_CELERY_APP = "mailhub.celery.app"
# One queue only: with several, RQ pops by BLPOP, and a job that a dying worker has popped is lost
# (rq/queue.py, dequeue_any).
RQ_QUEUES = {"default": {"URL": ENV.REDIS_URL, "SERIALIZER": "rq.serializers.JSONSerializer"}}
RQ = {
    "WORKER_CLASS": "approvals.queues.rq.ForkingWorker",
    "JOB_CLASS": "approvals.queues.rq.ActionJob",
}

INSTALLED_APPS = [
    "django.contrib.admin.apps.SimpleAdminConfig",  # only mailhub.urls loads the admin pages
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "django_structlog",
    "django_htmx",
    "django_prose_editor",
    "csp",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "accounts.apps.BrowsersConfig",
    "allauth.socialaccount",
    # It loads an HTTP library in each process.
    *(["allauth.socialaccount.providers.openid_connect"] if ENV.OIDC_ISSUER else []),
    "allauth.idp.oidc",
    "accounts.apps.AccountsConfig",
    "approvals",
    "tools",
    "mailhub",
    "mailhub.agent",
]

MIDDLEWARE = [
    # Before all others, because a browser must be able to read their refusals, too.
    *(["corsheaders.middleware.CorsMiddleware"] if ENV.MAILHUB_CORS_ORIGINS else []),
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "mailhub.static_files.CompressPages",
    "mailhub.middleware.no_store.forbid_caching",
    "django_structlog.middlewares.RequestMiddleware",
    "tools.surfaces.api_answers.answer_with_problems",
    "mailhub.middleware.broken_text.refuse_broken_text",
    "mailhub.middleware.one_name.lead_to_one_name",
    "accounts.people.sessions.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "accounts.infra.time_zones.in_their_zone",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.http.ConditionalGetMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "accounts.infra.languages.in_their_language",
    "allauth.account.middleware.AccountMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "csp.middleware.CSPMiddleware",
    "mailhub.middleware.second_factor.AskFirst",
]

# A script in another origin may call the API with a token. No cookie goes with it, and the API reads
# none.
CORS_ALLOWED_ORIGINS = ENV.MAILHUB_CORS_ORIGINS
CORS_URLS_REGEX = r"^/(api/|oauth/(register|token|revoke|device/code)$|\.well-known/oauth-)"
CORS_ALLOW_CREDENTIALS = False
CORS_ALLOW_METHODS = ["GET", "POST", "DELETE"]
CORS_ALLOW_HEADERS = [
    *("authorization", "x-api-key", "content-type", "accept", "idempotency-key", "if-none-match"),
    "prefer",
]
CORS_EXPOSE_HEADERS = [
    *("Location", "Retry-After", "ETag", "Allow", "WWW-Authenticate", "X-Request-ID"),
    *("Idempotency-Replayed", "Preference-Applied", "RateLimit", "RateLimit-Policy"),
]

ROOT_URLCONF = "mailhub.urls"
ASGI_APPLICATION = "mailhub.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "builtins": ["django.templatetags.i18n", "django.templatetags.static"],
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    }
]

DATABASES = {"default": dj_database_url.parse(ENV.DATABASE_URL)}
if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    # IMMEDIATE takes the write lock at BEGIN: with Django's default a third of concurrent updates
    # fail with "database is locked", because a reader that becomes a writer cannot wait. FULL syncs
    # the log at each commit. With NORMAL a power cut loses the newest commits, including "the mail
    # was handed over", and the mail would be sent again
    # (https://sqlite.org/pragma.html#pragma_synchronous).
    DATABASES["default"]["OPTIONS"] = {
        "transaction_mode": "IMMEDIATE",
        "timeout": 20,
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA fullfsync=1;",
    } | DATABASES["default"].get("OPTIONS", {})
else:
    DATABASES["default"]["ENGINE"] = "accounts.infra.postgresql"
    _given = DATABASES["default"].get("OPTIONS", {})
    # The limits of the server end the session of a process that is frozen, or whose machine is gone:
    # the rows that it locked stop a mailbox, and the waiting requests use up the pool. No
    # transaction waits for anything but the database, and none computes for half a minute. A
    # request for a locked row ends before the requests that wait for the pool do.
    _of_the_server = " ".join(
        f"-c {limit}"
        for limit in (
            "statement_timeout=15min",  # longer than any migration or export of ours
            "idle_in_transaction_session_timeout=30s",
            "lock_timeout=15s",
            *("tcp_keepalives_idle=20", "tcp_keepalives_interval=10", "tcp_keepalives_count=3"),
            "tcp_user_timeout=60s",
            "jit=off",
        )
    )
    # Under ASGI, one connection for each thread exceeds the database's limit, so there is a pool.
    # Planning a claim costs more than running it, so the database keeps the plans of repeated
    # statements. Options in the URL take precedence.
    DATABASES["default"]["OPTIONS"] = {
        "pool": {"min_size": 1, "max_size": 10, "timeout": 20},
        "server_side_binding": True,
        "prepare_threshold": 5,
        # A network that fails silently is noticed within a minute, by a web server and by
        # workers.
        "connect_timeout": 10,
        "application_name": process_name(sys.argv),
        "keepalives": 1,
        "keepalives_idle": 20,
        "keepalives_interval": 10,
        "keepalives_count": 3,
        "tcp_user_timeout": 60_000,
        # A connection pooler does not accept this parameter, and a `prepare_threshold` in the URL
        # means that there is one.
        **({} if "prepare_threshold" in _given else {"options": _of_the_server}),
    } | _given

DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
AUTH_USER_MODEL = "accounts.User"
_validation = "django.contrib.auth.password_validation"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"{_validation}.UserAttributeSimilarityValidator"},
    {"NAME": f"{_validation}.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": f"{_validation}.CommonPasswordValidator"},
    {"NAME": "accounts.people.passwords.GuessableValidator"},
]
AUTHENTICATION_BACKENDS = ["allauth.account.auth_backends.AuthenticationBackend"]
# Failed attempts are counted in the database, so that all web processes share the counts.
CACHES = {
    "default": {"BACKEND": "accounts.infra.cache.JsonDatabaseCache", "LOCATION": "accounts_cache"}
}
# Sessions and cache values in the database are JSON, because a pickle could run code
# here.
SESSION_SERIALIZER = "django.contrib.sessions.serializers.JSONSerializer"
ACCOUNT_ADAPTER = "accounts.people.adapters.AccountAdapter"
ACCOUNT_USER_MODEL_USERNAME_FIELD = None
ACCOUNT_LOGIN_METHODS = {"email"}
ACCOUNT_SIGNUP_FIELDS = ["email*", "password1*"]  # there is no sign-up; it enables passwords
ACCOUNT_EMAIL_VERIFICATION = (
    "none"  # a command or an invitation makes each account for a known person
)
ACCOUNT_SESSION_REMEMBER = True
ACCOUNT_LOGOUT_REDIRECT_URL = "sign_in"
ACCOUNT_REAUTHENTICATION_TIMEOUT = 300
# `accounts.people.guessing` delays attempts after wrong passwords; `login_failed` is for codes,
# after the password.
ACCOUNT_RATE_LIMITS = {
    "login": "60/m/ip",
    "login_failed": "5/300s/key",
    "reauthenticate": "10/m/user",
    # By network only; `accounts.people.guessing` limits those of one address.
    "request_login_code": "20/m/ip",
    "reset_password": "20/m/ip",
}
ACCOUNT_EMAIL_NOTIFICATIONS = (
    True  # for each change of a password, factor or address, and each new browser
)
MAILHUB_OWN_MAIL_THREADS = 2
MAILHUB_REQUEST_LOG_SECONDS = 1.0  # the records of requests are written together so often
ACCOUNT_LOGIN_BY_CODE_ENABLED = True  # offered only if mailhub sends mail
ACCOUNT_EMAIL_UNKNOWN_ACCOUNTS = False  # no mail to unknown addresses
ACCOUNT_EMAIL_SUBJECT_PREFIX = ""
ACCOUNT_PASSWORD_RESET_TOKEN_GENERATOR = "accounts.people.reset_links.ResetLinks"  # noqa: S105  # a path
PASSWORD_RESET_TIMEOUT = 900  # no program that searches the mailbox has days to guess a link
ALLAUTH_TRUSTED_PROXY_COUNT = 1 if _public.scheme == "https" else 0
ACCOUNT_FORMS = {
    "request_login_code": "accounts.forms.CodeRequestForm",
    "reset_password": "accounts.forms.ResetRequestForm",
    "set_password": "accounts.forms.NewPasswordForm",
    "change_password": "accounts.forms.OtherPasswordForm",
    "reset_password_from_key": "accounts.forms.ResetForm",
}
MFA_ADAPTER = "accounts.people.adapters.SecondFactors"
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_PASSKEY_LOGIN_ENABLED = True
MFA_ALLOW_UNVERIFIED_EMAIL = True
MFA_TOTP_ISSUER = "mailhub"
MFA_WEBAUTHN_ALLOW_INSECURE_ORIGIN = _public.scheme == "http"  # browsers let only localhost do that
MFA_FORMS = {
    "add_webauthn": "accounts.forms.PasskeyForm",
    "edit_webauthn": "accounts.forms.PasskeyNameForm",
    "authenticate_webauthn": "accounts.forms.SecondStepForm",
    "login_webauthn": "accounts.forms.PasskeySignInForm",
    "reauthenticate_webauthn": "accounts.forms.SignInAgainForm",
}
SOCIALACCOUNT_ADAPTER = "accounts.people.adapters.SingleSignOn"
SOCIALACCOUNT_EMAIL_AUTHENTICATION = SOCIALACCOUNT_EMAIL_AUTHENTICATION_AUTO_CONNECT = True
SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"OAUTH_PKCE_ENABLED": True, "APPS": []}}
if ENV.OIDC_ISSUER:
    SOCIALACCOUNT_PROVIDERS["openid_connect"]["APPS"] = [
        {
            "provider_id": "sso",
            "name": ENV.OIDC_NAME,
            "client_id": ENV.OIDC_CLIENT_ID,
            "secret": ENV.OIDC_CLIENT_SECRET,
            "settings": {"server_url": ENV.OIDC_ISSUER},
        }
    ]
# Programs connect to mailhub (accounts/oauth), by the address of their metadata document or after
# they registered themselves.
IDP_OIDC_ADAPTER = "accounts.oauth.adapter.Adapter"
IDP_OIDC_AUTH_METHODS = ["none"]
LOGIN_URL = "sign_in"
LOGIN_REDIRECT_URL = "queue"
LOGOUT_REDIRECT_URL = "sign_in"

LANGUAGE_CODE = "en"
# Each language by its own name, so that a person finds it whatever the page is in.
LANGUAGES = [("en", "English"), ("de", "Deutsch"), ("zh-hans", "简体中文")]
LOCALE_PATHS = [BASE_DIR / "mailhub" / "locale"]
TIME_ZONE = "UTC"
STATIC_URL = "static/"
STATIC_ROOT = ENV.MAILHUB_STATIC_ROOT or None
if STATIC_ROOT:
    STORAGES = {"staticfiles": {"BACKEND": "mailhub.static_files.HashedFiles"}}
WHITENOISE_MIMETYPES = {".webmanifest": "application/manifest+json"}
WHITENOISE_KEEP_ONLY_HASHED_FILES = True
WHITENOISE_SKIP_COMPRESS_EXTENSIONS = ("map", "png", "woff2")
WHITENOISE_USE_FINDERS = True  # no step between a clone and a running server

_https = _public.scheme == "https"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = _https
if _https:  # browsers take a cookie of this name from this host only, over TLS and for all paths
    SESSION_COOKIE_NAME, CSRF_COOKIE_NAME = "__Host-sessionid", "__Host-csrftoken"
MAILHUB_DEVICE_COOKIE = "__Host-device" if _https else "device"
SESSION_ENGINE = "accounts.people.sessions"
SESSION_COOKIE_AGE = ENV.MAILHUB_SESSION_DAYS * 86_400  # the absolute limit
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if _https else None
SECURE_HSTS_SECONDS = 31_536_000 if _https else 0
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "style-src": [SELF],
        "script-src": [SELF],
        "img-src": [SELF, "data:"],
        "connect-src": [SELF],
        "frame-src": [SELF],
        "worker-src": [SELF],
        "manifest-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
    }
}
# A body is at most 100,000 characters; attachments of 4 MB arrive in base64.
DATA_UPLOAD_MAX_MEMORY_SIZE = 32 * 1024 * 1024

DJANGO_STRUCTLOG_STATUS_START_LOG_LEVEL = logging.DEBUG  # one line for each request is enough
DJANGO_STRUCTLOG_IP_LOGGING_ENABLED = False
DJANGO_STRUCTLOG_USER_ID_FIELD = None  # the API never reads a cookie, not even to log its user
LOGGING_CONFIG = None
logs.configure(ENV.LOG_FORMAT)
logging.getLogger("mailhub.agent").setLevel(
    {"warn": "WARNING"}.get(ENV.AGENT_LOG_LEVEL, ENV.AGENT_LOG_LEVEL.upper())
)
