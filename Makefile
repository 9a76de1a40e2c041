# The two commands of a newcomer: `make demo` and `make test`. Both install what is missing first.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
BUILD := build/release
FUZZ_SECONDS ?= 60

.PHONY: help deps build demo test bench fuzz format format-check tidy clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

deps:  ## install the Debian or Ubuntu packages that are missing
	@tools/deps

$(BUILD)/build.ninja: CMakeLists.txt CMakePresets.json | deps
	cmake --preset release

build: deps $(BUILD)/build.ninja  ## build library, tool, tests and examples
	cmake --build --preset release

demo: deps $(BUILD)/build.ninja  ## a Performer and a Transformer learn real proteins; writes demo/report.html
	cmake --build --preset release --target favor_tool
	@tools/demo $(BUILD)/favor demo

test: build  ## run all tests
	ctest --preset release -j $$(nproc) --progress

bench: deps  ## benchmark single kernels
	cmake --preset release -DFAVOR_BUILD_BENCH=ON
	cmake --build --preset release --target favor_bench
	$(BUILD)/bench/favor_bench --benchmark_min_time=0.2

fuzz:  ## fuzz the file readers for FUZZ_SECONDS each (60)
	@tools/deps --fuzz
	cmake --preset fuzz
	cmake --build --preset fuzz --target fuzz_all
	@for target in build/fuzz/bin/fuzz_*; do \
	  name=$$(basename $$target); mkdir -p build/fuzz/corpus/$$name; \
	  echo "== $$name, $(FUZZ_SECONDS) s"; \
	  $$target -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
	    -artifact_prefix=build/fuzz/$$name- build/fuzz/corpus/$$name fuzz/corpus/$$name 2>&1 | tail -n 7; \
	done

format:  ## format every source file
	tools/format

format-check:
	tools/format --check

tidy: build  ## clang-tidy and cppcheck
	tools/tidy

clean:  ## remove everything that was built
	rm -rf build demo
