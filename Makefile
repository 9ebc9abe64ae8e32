# The two commands for a fresh machine are "make run" and "make test"; each installs what it needs first.
# ARGS is handed on: make test ARGS="-k approve", make lock ARGS=--upgrade.

.PHONY: help run link test test-all coverage check bench faults fuzz docs messages lock notice image release clean
.DEFAULT_GOAL := help

help: ## this list
	@grep -E '^[a-z-]+:.*## ' Makefile | sed 's/:[^#]*## /	/' | expand -t 12

run: ## the web server, the worker and the sandbox mail server (PORT, HOST, MAILHUB_HOME)
	@bin/bootstrap sandbox
	@# exec: no shell in between, so that a signal ends the program and make waits until it has ended.
	@exec .venv/bin/python manage.py run

link: ## a sign-in link for the person of the sandbox (MAILHUB_HOME)
	@MAILHUB_HOME="$(or $(MAILHUB_HOME),var)" .venv/bin/python manage.py sign_in_link

test: ## the test suite: each test once, on PostgreSQL or SQLite, and on both if they differ
	@bin/bootstrap test
	@bin/system-packages
	@exec .venv/bin/python bin/test $(ARGS)

test-all: ## the suite on both databases, and its long parts (PART=faults runs one; it lists them first)
	@bin/bootstrap test
	@bin/system-packages long
	@exec .venv/bin/python bin/test --all $(PART) $(ARGS)

coverage: ## which lines the tests of make test run; fails below the bars (a part of test-all)
	@bin/bootstrap test
	@bin/system-packages
	@exec .venv/bin/python bin/test --all coverage $(ARGS)

check: ## style, templates, types, import rules, language, migrations, settings, the source tree
	@bin/bootstrap test
	@bin/system-packages
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/djangofmt --check templates
	.venv/bin/djangofmt check templates
	.venv/bin/python -m mypy
	.venv/bin/lint-imports
	.venv/bin/python bin/voice
	@# The tests' settings bring keys of their own, so that a fresh clone can be checked.
	.venv/bin/python manage.py makemigrations --check --dry-run --settings tests.settings
	.venv/bin/python manage.py check --fail-level WARNING --settings tests.settings
	.venv/bin/python -m pytest -q -m "static and not (long or process or browser)"

bench: ## measures what reading and sending cost; writes docs/dev/performance.md
	@bin/bootstrap test
	@bin/system-packages
	@exec .venv/bin/python bin/bench $(ARGS)

faults: ## kills, floods and cuts off everything, on every queue; writes docs/operate/reliability.md (SEED, MINUTES a queue)
	@bin/bootstrap test
	@bin/system-packages long
	@exec env SEED="$(SEED)" MINUTES="$(MINUTES)" .venv/bin/python -m pytest tests/faults/prove_all.py -q -p no:xdist

fuzz: ## changes mails at random and reads them, for MINUTES (TARGET: mail, page, shown, header or structure)
	@bin/bootstrap fuzz
	@exec .venv/bin/python -m tests.fuzz "$(or $(TARGET),mail)" "$(or $(MINUTES),10)"

docs: ## writes docs/use/tools.md and the warnings in docs/contract.md from the code
	@bin/bootstrap test
	.venv/bin/python manage.py tool_docs --settings tests.settings

messages: ## collects the texts that people read for mailhub/locale, and compiles the translations
	@bin/bootstrap test
	@bin/system-packages
	.venv/bin/python manage.py makemessages -l de -l zh_Hans --no-location --no-wrap --no-obsolete \
		-i .venv -i var -i tests -i node_modules -i test-output --settings tests.settings
	.venv/bin/python manage.py compilemessages -i .venv --settings tests.settings

lock: ## new pins from requirements/*.in (ARGS=--upgrade for the newest)
	@bin/bootstrap runtime
	@bin/lock $(ARGS)

notice: ## writes NOTICE, the licences of what is shipped with mailhub
	@bin/bootstrap test
	.venv/bin/python bin/notice

image: ## builds the images mailhub and mailhub-stream with buildah, without a daemon (PYTHON_IMAGE)
	@bin/image

release: ## builds what a release publishes into dist/ (VERSION=1.2.3; TAG=1 also commits and tags)
	@bin/bootstrap runtime
	@TAG="$(TAG)" bin/release "$(VERSION)"

clean: ## removes .venv and caches; the data in var/ stays
	rm -rf .venv .mypy_cache .ruff_cache .import_linter_cache .pytest_cache .hypothesis test-output dist .servers
	find . -name var -prune -o -name .git -prune -o -name node_modules -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
