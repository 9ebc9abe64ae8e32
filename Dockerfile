# syntax=docker/dockerfile:1
# Two images: `app` for everything but the chat, and `stream`, which also has its libraries. For amd64 and arm64.
ARG PYTHON_IMAGE=python:3.13-slim
FROM ${PYTHON_IMAGE} AS build
WORKDIR /build
# pip has an environment of its own, so the images have none.
RUN python -m venv /pip && python -m venv --without-pip /venv
COPY requirements/build.txt requirements/runtime.txt ./
# Every package by its hash, and none that would have to be compiled. http-ece is published as source only: it is pure
# Python, and the pinned setuptools makes a wheel of it. What nobody reads goes: the descriptions of Google's other
# services, pages of django-ninja, and the sources of translations.
RUN --mount=type=cache,target=/root/.cache/pip \
    install="/pip/bin/pip --python /venv install --require-hashes --only-binary :all:" \
    && $install -r build.txt \
    && $install --no-binary http-ece --no-build-isolation -r runtime.txt \
    && /pip/bin/pip --python /venv uninstall --yes setuptools \
    && cd /venv/lib/python3*/site-packages \
    && find googleapiclient/discovery_cache/documents -type f ! -name gmail.v1.json -delete \
    && find . -name '*.po' -delete \
    && rm -r ninja/static

FROM build AS build-chat
COPY requirements/agent.txt ./
RUN --mount=type=cache,target=/root/.cache/pip \
    /pip/bin/pip --python /venv install --require-hashes --only-binary :all: --no-binary http-ece -r agent.txt

FROM ${PYTHON_IMAGE} AS code
WORKDIR /app
COPY manage.py NOTICE ./
COPY accounts accounts
COPY approvals approvals
COPY tools tools
COPY mailhub mailhub
COPY templates templates
# The file system is read-only when it runs.
RUN python -m compileall -q .

# Files with hashes in their names, and compressed ones beside them. It reads no secrets, but the settings want some.
# They also close what mailhub writes to other users, and these files are for everybody.
FROM build AS static
WORKDIR /app
COPY --from=code /app .
RUN SECRET_KEY=$(od -An -N40 -tx1 /dev/urandom | tr -d ' \n') \
    MAILHUB_ENCRYPTION_KEYS=$(head -c 32 /dev/urandom | base64) \
    MAILHUB_STATIC_ROOT=/app/static /venv/bin/python manage.py collectstatic --noinput \
    && chmod -R a+rX /app/static

FROM ${PYTHON_IMAGE} AS base
LABEL org.opencontainers.image.title="mailhub" \
    org.opencontainers.image.description="The approval gate between software agents and people's mailboxes." \
    org.opencontainers.image.version="0.3.8"
RUN useradd --uid 10001 --no-create-home --home-dir /data mailhub \
    && install -d -o mailhub -g mailhub -m 700 /data \
    && rm -rf /usr/local/bin/pip* /usr/local/lib/python3*/site-packages/pip* /usr/local/lib/python3*/ensurepip
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 MAILHUB_HOME=/data MAILHUB_STATIC_ROOT=/app/static LOG_FORMAT=json
WORKDIR /app
USER 10001:10001
VOLUME /data
EXPOSE 8000
# The server answers it. Services that are no servers have their own in the compose file.
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/healthz', timeout=4)"]

FROM base AS stream
COPY --from=build-chat /venv /venv
COPY --from=code /app /app
COPY --from=static /app/static /app/static
CMD ["python", "manage.py", "web", "--host=0.0.0.0", "--port=8000"]

FROM base AS app
COPY --from=build /venv /venv
COPY --from=code /app /app
COPY --from=static /app/static /app/static
CMD ["python", "manage.py", "web", "--host=0.0.0.0", "--port=8000", "--workers=2", "--grace=20"]
