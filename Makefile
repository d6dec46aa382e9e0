# Every target makes its own .venv first; nothing else has to be prepared.
.PHONY: help demo dev test check format bench clean
.DEFAULT_GOAL := help

help:
	@echo "make demo     the whole story on a Postgres of its own, in under a minute"
	@echo "make dev      embedded Postgres, migrations and a worker that reloads on change; APP=module:attr"
	@echo "make test     every ring of tests this machine can run; ARGS='-k name' is passed on to pytest"
	@echo "make check    lint, format, types, layers, dependencies"
	@echo "make format   let ruff mend what it can"
	@echo "make bench    throughput and latency against bare loops and a peer"

demo:
	@scripts/bootstrap run
	@.venv/bin/redrive demo

dev:
	@scripts/bootstrap run
	@.venv/bin/redrive dev --app $(or $(APP),examples.email:app)

test:
	@scripts/bootstrap dev
	@.venv/bin/python scripts/test.py $(ARGS)

check:
	@scripts/bootstrap dev
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/pyright
	.venv/bin/lint-imports --no-logo
	.venv/bin/deptry src

format:
	@scripts/bootstrap dev
	.venv/bin/ruff check --fix
	.venv/bin/ruff format

bench:
	@scripts/bootstrap dev
	@.venv/bin/python -m benchmarks $(ARGS)

clean:
	rm -rf .venv build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
