# The ways to build and try Weft. `make` lists them.

export PREFIX ?= /usr/local
export LIBDIR ?= $(PREFIX)/lib
FUZZ_SECONDS ?= 600

.PHONY: help demo test interop fuzz install uninstall clean

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

install: ## Build Weft and install command, libfabric provider and manual below PREFIX (/usr/local), LIBDIR (PREFIX/lib)
	@cargo build --release --locked --package weft-cli --package weft-provider
	@scripts/install

uninstall: ## Remove what `make install` has installed
	@scripts/install --remove

clean: ## Remove what was built (downloads stay in .cache)
	@cargo clean --quiet
	@cargo clean --quiet --manifest-path fuzz/Cargo.toml
	@rm -rf .cache/logs
