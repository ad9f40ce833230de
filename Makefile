# Every target sets up what it needs in .venv; a machine needs only Python 3.11+ and make.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/installed

.PHONY: demo playground test conformance pictures lint lock clean

demo: $(INSTALLED)  ## the main job on the embedded default
	@$(BIN)/interlock demo

playground: $(INSTALLED)  ## the bot in a browser, as in Teams but without an account; needs npm
	@$(BIN)/python -m examples.playground

test: $(INSTALLED)
	$(BIN)/pytest -n auto --dist worksteal

conformance: $(INSTALLED)  ## the MCP client against the protocol's own suite; needs npm
	@$(BIN)/python -m tests.conformance.run

pictures: $(INSTALLED)  ## everything that Slack and Teams are shown, as PNG; needs npm and chromium
	@$(BIN)/python -m tests.pictures

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

lock:  ## exact versions and hashes of everything, for every platform
	$(PYTHON) -m venv .venv/lock
	.venv/lock/bin/pip install --quiet uv
	.venv/lock/bin/uv pip compile pyproject.toml --universal --generate-hashes --upgrade \
		--all-extras --group dev --no-header --no-annotate --no-emit-index-url --quiet \
		--output-file requirements.lock

$(INSTALLED): requirements.lock pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(INSTALLED)

clean:
	rm -rf .venv
