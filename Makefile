# Every target sets up first what it needs (setup/run); once that is done it costs nothing.
run := ./setup/run
compile := uv pip compile --quiet --generate-hashes --python-version 3.11 \
	--custom-compile-command 'make lock'
.DEFAULT_GOAL := help
all_features := MELTLINE_FEATURES=test,s3,gcp,azure,stacks
.PHONY: help setup demo up down quick test test-all nightly stacks durations check measure bench \
	soak compare mutations pictures pages docs lock

help:  ## list the targets
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/  make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 18

setup:  ## virtual environment, Java and jars, and nothing else
	@$(run)

demo:  ## build the demo warehouse, run its lifecycle in Airflow, show what happened
	@$(run) python -m demo

up:  ## start Airflow with the demo loaded, on loopback; prints the address and the login
	@$(run) python -m demo.up

down:  ## stop exactly what `make up` started
	@$(run) python -m demo.down

quick: check  ## check, and run the tests that need neither Java nor a server: 2 minutes
	@MELTLINE_FEATURES=test $(run) python -m tests.tiers quick

test: check  ## check, and run the tests of each feature, with Spark and Airflow: 15 minutes
	@MELTLINE_FEATURES=test $(run) python -m tests.tiers test

test-all: check docs  ## check, and run the tests that CI runs, with servers, kills and new seeds: 75 minutes
	@$(all_features) $(run) python -m tests.tiers all

nightly: check  ## all tests, then the mutations, then random lives and kills for 2 hours
	@$(all_features) $(run) python -m tests.tiers nightly
	@$(run) python -m tests.mutation
	@$(run) python -m tests.soak $(or $(SOAK),--hours 2)

stacks:  ## run the tests on servers and clusters alone; one of them: make stacks STACKS=azure
	@$(all_features) $(run) python -m pytest -q $(addprefix tests/stacks/,$(or $(STACKS),.))

durations:  ## run the tests that CI runs, store how long each takes, and write the table of docs/develop.md
	@$(all_features) $(run) python -m tests.tiers all --record
	@$(run) python -m tests.tiers.durations page

check:  ## format, lint, types, borders between the packages, typos, and the limits of `measure`
	@$(run) ruff format --check .
	@$(run) ruff check .
	@$(run) mypy
	@$(run) lint-imports
	@$(run) python -m tests.house 0
	@$(run) codespell
	@$(run) python -m tests.tiers.durations check

measure:  ## the house in figures with their limits, and the worst places of each
	@$(run) python -m tests.house $(PLACES)

bench:  ## Meltline beside Iceberg's procedures; a part of it: make bench BENCH="fleet --scale 0.1"
	@MELTLINE_FEATURES=test,s3,stacks $(run) python -m benchmarks $(or $(BENCH),all)

soak:  ## random lives, faults and kills for as long as told: make soak SOAK="--hours 2"
	@$(run) python -m tests.soak $(SOAK)

compare:  ## what an older checkout's build decides beside this one: make compare COMPARE=../before
	@$(run) python -m tests.comparison $(COMPARE)

mutations:  ## break the package in one way after another, and show which test notices
	@$(run) python -m tests.mutation $(MUTATIONS)

pictures:  ## take the pictures of docs/ that show Airflow in a browser
	@MELTLINE_FEATURES=test MELTLINE_PICTURES=docs/pictures $(run) python -m pytest -q \
		--basetemp=/tmp/meltline tests/dags/browser tests/dags/approval/test_approved_for_real.py

pages:  ## write what is generated of docs/: commands.md, the decisions' index, which tests hold which requirement
	@$(run) python -m tests.command_reference
	@$(run) python -m tests.decision_index
	@$(run) python -m tests.requirements

docs:  ## build the site of docs/ in build/site; a broken link fails it
	@MELTLINE_FEATURES=docs $(run) uv venv --quiet --allow-existing --python .venv/bin/python build/docs
	@$(run) uv pip sync --quiet --require-hashes --python build/docs docs/requirements.txt
	@NO_MKDOCS_2_WARNING=1 PYTHONPATH=include $(run) build/docs/bin/mkdocs build --quiet

lock:  ## compile requirements.in into requirements.txt, and from that what the image installs; with hashes
	@$(run) $(compile) requirements.in -o requirements.txt
	@$(run) $(compile) --all-extras --constraint requirements.txt pyproject.toml \
		-o deploy/requirements.txt
	@$(run) $(compile) docs/requirements.in -o docs/requirements.txt
