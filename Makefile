# The way in: every target is one line away, and the work is CMake's and CTest's.
BUILD  ?= build
PREFIX ?= /usr/local
JOBS   ?= $(shell nproc 2>/dev/null || echo 2)
BENCH  ?= b1,h8,s512,d64,fp32 b1,h8,s2048,d64,fp32,causal
export CTEST_PARALLEL_LEVEL ?= $(JOBS)

.PHONY: help deps deps-test configure build test test-python test-torch wheel test-gpu gate evolve verify ratchet demo bench readme format lint install clean

help:
	@echo "attune: fused attention that plans, proves and runs"
	@echo
	@echo "  make demo      build, then attention on a real transformer's layer: run, compare, bench, search"
	@echo "  make test      everything that can be checked here: tests, sanitizers, fuzzers, lint"
	@echo
	@echo "  make build     libattune and attune, into $(BUILD)/"
	@echo "  make wheel     the Python package, into $(BUILD)/wheel/, tried in an environment of its own"
	@echo "  make test-torch  attune.torch, attune.hf and attune.jax on a CPU, with what PyPI brings, once"
	@echo "  make test-gpu  the device tests, on a machine with an NVIDIA GPU"
	@echo "  make gate      the gate on every CUDA kernel, into evidence/; KERNELS=, PROBLEMS=, AGAINST= restrict it"
	@echo "  make evolve    search, gate and wisdom on a grid of CUDA problems; KERNELS=, PROBLEMS=, STRATEGY= restrict it"
	@echo "  make evolve-code  search code from a weakened cpu_tiled, by rules and without a model; about nine minutes"
	@echo "                 (KERNEL=tiled: from a weakened tiled, on a GPU)"
	@echo "  make verify    judge the evidence in evidence/ again"
	@echo "  make ratchet   fail where a kernel's newest evidence is worse than its best"
	@echo "  make bench     time BENCH=\"$(BENCH)\""
	@echo "  make readme    write README's table of measurements from recorded evidence"
	@echo "  make install   install below PREFIX=$(PREFIX)"
	@echo "  make format    rewrite the sources in the house's format"
	@echo "  make lint      only the checks of style and structure"
	@echo "  make deps      the Debian packages that building needs (the other targets see to it themselves)"
	@echo "  make clean     remove $(BUILD)/"

deps:
	@tools/install-deps.sh build

deps-test:
	@tools/install-deps.sh build test

configure: deps
	@mkdir -p $(BUILD)
	@cmake -G Ninja -S . -B $(BUILD) > $(BUILD)/configure.log 2>&1 || { cat $(BUILD)/configure.log; exit 1; }

build: configure
	@cmake --build $(BUILD) -j $(JOBS)

# The last lines are CTest's own account. Whatever can fail is a test of it: docs/maintaining.md lists them.
test: deps-test build
	@ctest --test-dir $(BUILD) --output-on-failure --no-label-summary -LE tidy

# All tests of the package; ATTUNE_PYTHON=/venv/bin/python names another Python.
test-python: build
	@tests/python/run.sh $(BUILD)

test-torch: build
	@tests/python/torch.sh $(BUILD)

wheel: deps deps-test
	@tools/wheel.sh . $(BUILD)
	@tests/python/wheel.sh $(BUILD)

# On a machine with a GPU; $(BUILD)/gpu, built elsewhere, is all it needs.
test-gpu:
	@[ -x $(BUILD)/gpu/attune ] || $(MAKE) --no-print-directory deps-test build
	@tools/test-gpu.sh $(BUILD)/gpu

gate: build
	@ATTUNE_LIBRARY="$(abspath $(BUILD))/lib/libattune-gate.so" \
		PYTHONPATH="$(CURDIR)/python$${PYTHONPATH:+:$$PYTHONPATH}" tools/gate.sh $(BUILD)/bin evidence

evolve: build
	@ATTUNE_LIBRARY="$(abspath $(BUILD))/lib/libattune-gate.so" \
		PYTHONPATH="$(CURDIR)/python$${PYTHONPATH:+:$$PYTHONPATH}" \
		LEDGERS="$(abspath $(BUILD))/ledgers" tools/evolve.sh $(BUILD)/bin evidence $(BUILD)/device.wisdom

evolve-code: build
	@tools/evolve-code.sh $(BUILD)/bin $(BUILD)/evolve-code $(KERNEL)

verify: build
	@$(BUILD)/bin/attune verify evidence

ratchet: build
	@$(BUILD)/bin/attune ratchet evidence

demo: build
	@tools/demo.sh $(BUILD)

bench: build
	@$(BUILD)/bin/attune bench $(BENCH)

readme: build
	@tools/readme_tables.py . $(BUILD)

format: deps-test
	@tools/checks/format.sh --write

lint: deps-test build
	@ctest --test-dir $(BUILD) --output-on-failure --no-label-summary -L check

install: configure
	@cmake --build $(BUILD) -j $(JOBS) --target attune_package
	@cmake --install $(BUILD) --prefix $(PREFIX)

clean:
	rm -rf $(BUILD)
