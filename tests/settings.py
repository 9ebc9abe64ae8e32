"""The settings of the test run: fixed keys, and a temporary home."""

import base64
import os
import tempfile

os.environ.setdefault("SECRET_KEY", "a key for tests, long enough to be taken for one")
os.environ.setdefault("MAILHUB_ENCRYPTION_KEYS", base64.b64encode(b"k" * 32).decode())
_home = tempfile.TemporaryDirectory(prefix="mailhub-test-")  # removed when the process ends
# Each process of the run has its own database, so each has its own home. Its child processes share
# its home.
_worker = os.environ.get("PYTEST_XDIST_WORKER", "")
if os.environ.get("MAILHUB_HOME_OF", "") != _worker:
    os.environ |= {"MAILHUB_HOME": _home.name, "MAILHUB_HOME_OF": _worker}
os.environ.setdefault("MAILHUB_HOME", _home.name)

from mailhub.settings import *  # noqa: E402, F403  # the environment must be set before it is read
from tests.support.loopback import EveryServer  # noqa: E402

MAILHUB_LOOPBACK_SERVERS = EveryServer()

# Tests act as several people; those about second factors set it themselves.
MAILHUB_SECOND_FACTOR = "optional"

# In memory, and emptied for each test: the count of failed sign-ins.
CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}

# Every test's client is a new server: this keeps it from listing all static files first.
WHITENOISE_AUTOREFRESH = True

MAILHUB_OWN_MAIL_THREADS = 0  # mail is sent before the answer, so that a test finds it
MAILHUB_REQUEST_LOG_SECONDS = 0  # and a request is recorded before its answer

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

INSTALLED_APPS = ["tests.support.commands", "tests.load", *INSTALLED_APPS]  # noqa: F405  # its commands come first
INSTALLED_APPS += ["allauth.socialaccount.providers.openid_connect"]  # as with OIDC_ISSUER

# The in-memory mail server, for tests of the code above the providers.
MAILHUB_PROVIDERS["memory"] = "tests.support.servers.memory.MemoryProvider"  # noqa: F405

if DATABASES["default"]["ENGINE"].endswith("sqlite3"):  # noqa: F405
    # A file: an SQLite database in memory cannot be shared by threads the way a real one is.
    DATABASES["default"]["TEST"] = {"NAME": f"{_home.name}/test.sqlite3"}  # noqa: F405
    # Nobody needs this data after a crash, and the suite is faster without the waits.
    options = DATABASES["default"]["OPTIONS"]  # noqa: F405
    options["init_command"] = "PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF;"
else:
    DATABASES["default"]["TEST"] = {"NAME": f"test_{DATABASES['default']['NAME']}{_worker}"}  # noqa: F405
