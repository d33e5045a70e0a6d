# The ways to build and try Weft. `make` lists them.

PREFIX ?= /usr/local
FUZZ_SECONDS ?= 600
TARGET := $(or $(CARGO_TARGET_DIR),target)

.PHONY: help demo test interop fuzz install clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Build Weft and watch it move data between two processes
	@scripts/demo

test: ## Run everything that is checked, with a summary at the end
	@scripts/test

interop: ## Run Weft against Linux siw in a virtual machine, with all its splits, and let tshark read its traffic
	@scripts/test packages build siw_splits tshark_splits

fuzz: ## Run each fuzz target for FUZZ_SECONDS (600) with cargo-fuzz on a nightly toolchain
	@scripts/fuzz $(FUZZ_SECONDS)

install: ## Build Weft and install the command below PREFIX (/usr/local)
	@cargo build --release --locked --package weft-cli
	@install -D -m 755 $(TARGET)/release/weft $(DESTDIR)$(PREFIX)/bin/weft
	@echo "installed $(DESTDIR)$(PREFIX)/bin/weft"

clean: ## Remove what was built (downloads stay in .cache)
	@cargo clean --quiet
	@cargo clean --quiet --manifest-path fuzz/Cargo.toml
	@rm -rf .cache/logs
