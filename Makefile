# The front door; CMakePresets.json says what each build is. `make` alone lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help up demo down build test test-k8s sanitize soak bench bench-beside lint fmt clean setup
BIN := build/release/bin

help: ## this list
	@sed -nE 's/^([a-z0-9-]+):.*## (.*)/  make \1\t\2/p' Makefile | expand -t 16

up: build ## install what is missing, build, and start an instance in examples/hello
	@scripts/up

demo: build ## the same, and three agents take a goal to a page
	@scripts/up demo

down: ## stop that instance
	@scripts/up down

build: setup ## build/release/bin/warren
	cmake --preset release
	cmake --build --preset release --target warren

test: setup ## every test, on the build that users get
	@scripts/test release

test-k8s: setup ## what speaks to Kubernetes, on a real API server; builds that once, with Go 1.26
	@scripts/k8s/test

sanitize: setup ## the tests under ASan and UBSan, and what has threads under TSan
	@scripts/test asan tsan

soak: setup ## the long runs: an hour each of faults, schedules and random queries; HOURS=0.1 for a look
	@scripts/soak $(HOURS)

bench: build ## the benchmarks, or one with PART=redis; also to build/bench/<part>.jsonl
	cmake --build --preset release --target benches
	@mkdir -p build/bench
	@for program in $(BIN)/bench_$(or $(PART),*); do \
	  part=$${program##*/bench_}; $$program | tee build/bench/$$part.jsonl; done

bench-beside: setup ## the benchmarks beside those of revision BASE, taking turns
	@scripts/beside $(BASE) $(PART)

lint: setup ## layout, layers, promises, and clang-tidy on what has changed since it found nothing
	@scripts/lint

fmt: ## lay out every C++ file as clang-format wants it
	git ls-files '*.cc' '*.h' | xargs clang-format-19 -i

clean: ## remove build/
	rm -rf build

setup:
	@scripts/setup
