# The two commands of a newcomer: `make demo` and `make test`. Both install what is missing first.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
BUILD := build/release
FUZZ_SECONDS ?= 60

# Not empty: warnings are errors, and a skipped test, a missing plot or missing data of the demo is a failure.
STRICT ?=
DEMO_STEPS ?= 500

.PHONY: help deps configure build demo test bench sanitize tsan coverage fuzz fresh arm arm-here format format-check tidy clean
.PHONY: announce-test announce-demo configure-cuda test-cuda bench-cuda

help:  ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

deps:  ## install the Debian or Ubuntu packages that are missing
	@tools/deps

announce-test announce-demo: announce-%:
	@tools/announce $* $(BUILD)

configure: deps
	@tools/step $(BUILD)/configure.log cmake --preset release -DFAVOR_WERROR=$(if $(STRICT),ON,OFF)

build: configure  ## build library, tool, tests and examples
	@tools/step $(BUILD)/build.log cmake --build --preset release

demo: announce-demo configure  ## a Performer and a Transformer learn real proteins; writes demo/report.html
	@tools/step $(BUILD)/build.log cmake --build --preset release --target favor_tool
	@STRICT=$(STRICT) DEMO_STEPS=$(DEMO_STEPS) tools/demo $(BUILD)/favor demo

test: announce-test build  ## run all tests
	@ctest --preset release -j $$(nproc) --progress --output-junit $(CURDIR)/$(BUILD)/tests.xml
	@tools/skipped $(BUILD)/tests.xml $(if $(STRICT),--strict)

fresh:  ## make test and make demo on bare Debian systems, 12 and 13 (needs root)
	tools/fresh --release bookworm test demo
	tools/fresh --release trixie test demo

# Under qemu: instructions of NEON, not its speed.
ARM_TESTS := kernels features attention layers models
arm:  ## build for arm64 on a bare Debian system and run tests under qemu (needs root; about an hour)
	tools/fresh $(if $(CCACHE_DIR),--ccache $(CCACHE_DIR)) arm-here

arm-here:
	@tools/deps --arm
	@tools/step build/arm64/configure.log cmake --preset arm64
	@tools/step build/arm64/build.log cmake --build --preset arm64 --target $(ARM_TESTS:%=test_%)
	ctest --preset arm64 -j $$(nproc) --progress -R '^($(subst $() $(),|,$(ARM_TESTS)))/' -E '$(SLOW)'

bench: deps  ## benchmark single kernels
	cmake --preset release -DFAVOR_BUILD_BENCH=ON
	cmake --build --preset release --target favor_bench
	$(BUILD)/bench/favor_bench --benchmark_min_time=0.2

# A machine with a GPU often has no compiler and no libraries: programs are packed here and run there. C++ files are
# compiled with the flags of the release, so that a compiler cache serves both.
CUDA := build/cuda
CUDA_TESTS := $(sort $(shell grep -l '^TEST[_FP]*.Cuda' tests/*/*.cc | cut -d/ -f2))
configure-cuda: deps
	@tools/step $(CUDA)/configure.log cmake --preset cuda -DFAVOR_WERROR=$(if $(STRICT),ON,OFF) \
	  -DFAVOR_BUILD_BENCH=ON -DFAVOR_BUILD_EXAMPLES=OFF

test-cuda: configure-cuda  ## pack the tests of CUDA kernels, to run on a machine with a GPU (build/cuda/pack-test/run.sh)
	@tools/step $(CUDA)/build.log cmake --build --preset cuda --target favor_tool $(CUDA_TESTS:%=test_%)
	@tools/pack_cuda $(CUDA)/pack-test $(CUDA)/favor $(CUDA_TESTS:%=$(CUDA)/tests/test_%)

bench-cuda: configure-cuda  ## pack the benchmarks of CUDA kernels likewise (build/cuda/pack-bench/run.sh)
	@tools/step $(CUDA)/build.log cmake --build --preset cuda --target favor_tool favor_bench_cuda
	@tools/pack_cuda $(CUDA)/pack-bench $(CUDA)/favor $(CUDA)/bench/favor_bench_cuda

# Left out under sanitizers, where they would add minutes and reach no other code: statistics, finite differences, long
# trainings, crashes, the commands of the docs and comparisons of many cases with the reference.
SLOW := LinearExactness|Memory|CentralDifferences|Crash|Docs|/on-|MapGradients.*/(abs|cos|elu|exp|gaussian|gelu|hyp|ide|local|oprf|poly|reg|sgn|sig|tanh)|Estimators|IsUnbiased|OverAMillion|AMillionKeys|OverBlocks|OverManyHeads|OfManyBlocks|OfRunsOfBlocks|IsRightForDimensions|ByHeart|OfAnIndependentProgram|FindsTheGaps|FindsTheRate|EveryOneRuns|LabGoesOn|SeparationStudies.DoNotDependOnThreads|DrawnPolynomial|DrawsItsDegrees|GradientsAreThoseOfDifferences|OfRandomFeaturesIsThat

# The rooms that touch memory themselves; what stands above them is compiled.
SANITIZED := core io data kernels features attention layers models train inference reports
sanitize:  ## tests of the library under the address and undefined-behaviour sanitizers
	@tools/deps --clang
	cmake --preset sanitize
	cmake --build --preset sanitize --target $(SANITIZED:%=test_%)
	ctest --preset sanitize -j $$(nproc) --progress -R '^($(subst $() $(),|,$(SANITIZED)))/' -E '$(SLOW)'

tsan:  ## tests with threads under the thread sanitizer
	@tools/deps --clang
	cmake --preset tsan
	cmake --build --preset tsan --target test_core test_io test_data test_attention test_models test_train
	ctest --preset tsan --progress -R '^(core|io|data|attention|models|train)/' -E '$(SLOW)'

coverage:  ## which lines and branches of src/ the tests reach
	@tools/deps --coverage
	cmake --preset coverage
	cmake --build --preset coverage
	ctest --preset coverage -j $$(nproc) --progress -E 'Crash|package'
	gcovr --root . --filter src/ --exclude-throw-branches --txt build/coverage/coverage.txt --print-summary build/coverage

fuzz:  ## fuzz the file readers for FUZZ_SECONDS each (60)
	@tools/deps --clang
	cmake --preset sanitize
	cmake --build --preset sanitize --target fuzz_all
	@for target in build/sanitize/bin/fuzz_*; do \
	  name=$$(basename $$target); mkdir -p build/sanitize/corpus/$$name; \
	  echo "== $$name, $(FUZZ_SECONDS) s"; \
	  $$target -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
	    -artifact_prefix=build/sanitize/$$name- build/sanitize/corpus/$$name fuzz/corpus/$$name 2>&1 | tail -n 7; \
	done

format:  ## format every source file
	tools/format

format-check:
	tools/format --check

tidy: build  ## clang-tidy and cppcheck
	@tools/deps --tidy
	tools/tidy

clean:  ## remove everything that was built
	rm -rf build demo
