# syntax=docker/dockerfile:1
ARG PYTHON_IMAGE=python:3.13.5-slim
FROM ${PYTHON_IMAGE} AS build
WORKDIR /build
RUN python -m venv /venv
COPY requirements/build.txt requirements/agent.txt ./
# Every package by its hash, and none that would have to be compiled. http-ece is published as source only: it is pure
# Python, and the pinned setuptools makes a wheel of it.
RUN --mount=type=cache,target=/root/.cache/pip \
    /venv/bin/pip install --require-hashes --only-binary :all: -r build.txt \
    && /venv/bin/pip install --require-hashes --only-binary :all: --no-binary http-ece --no-build-isolation -r agent.txt \
    && /venv/bin/pip uninstall --yes setuptools

FROM ${PYTHON_IMAGE}
LABEL org.opencontainers.image.title="mailhub" \
    org.opencontainers.image.description="The approval gate between software agents and people's mailboxes." \
    org.opencontainers.image.version="0.2.0"
RUN useradd --uid 10001 --no-create-home --home-dir /data mailhub \
    && install -d -o mailhub -g mailhub -m 700 /data
COPY --from=build /venv /venv
COPY manage.py /app/
COPY accounts /app/accounts
COPY approvals /app/approvals
COPY tools /app/tools
COPY mailhub /app/mailhub
COPY templates /app/templates
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 MAILHUB_HOME=/data LOG_FORMAT=json
WORKDIR /app
# The file system is read-only when it runs.
RUN python -m compileall -q .
USER 10001:10001
VOLUME /data
EXPOSE 8000
CMD ["gunicorn", "--config=python:mailhub.gunicorn_settings", "--bind=0.0.0.0:8000", "--worker-tmp-dir=/dev/shm"]
