# The ways to build and try Weft. `make` lists them.

export PREFIX ?= /usr/local
export LIBDIR ?= $(PREFIX)/lib
FUZZ_SECONDS ?= 600

.PHONY: help demo test interop test-mpi test-mpi4py test-verbs verbs mutations fuzz install uninstall clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-13s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Build Weft and watch it move data between two processes
	@scripts/demo

test: ## Run everything that is checked, with a summary at the end
	@scripts/test

interop: ## Run Weft against Linux siw in a virtual machine, with all its splits, and let tshark read its traffic
	@scripts/test packages release siw_splits tshark_splits

test-mpi: ## Run all MPI programs with all MPI libraries over Weft's provider, not only what is essential
	@scripts/test packages release mpi_all mpi_iwarp_all mpi_edge_all mpi_loss mpi_no_udp

test-mpi4py: ## Run the tests of mpi4py with MPICH over Weft and over libfabric's tcp, and compare
	@scripts/test packages release mpi4py

test-verbs: ## Run Debian's programs for libibverbs over Weft, on one host and between two of a lab
	@scripts/test packages release verbs_all

mutations: ## Take rules out of the code, one at a time (hours): the simulations must see each
	@scripts/test all_mutations

fuzz: ## Run each fuzz target for FUZZ_SECONDS (600) with cargo-fuzz on a nightly toolchain
	@scripts/fuzz $(FUZZ_SECONDS)

verbs: ## Build the command, libibverbs.so.1 and librdmacm.so.1, for `weft run`
	@cargo build --release --locked --package weft-cli --package weft-verbs-abi
	@scripts/link-verbs

install: ## Build Weft and install command, libraries and manual below PREFIX (/usr/local), LIBDIR (PREFIX/lib)
	@cargo build --release --locked --package weft-cli --package weft-provider --package weft-mpi --package weft-verbs-abi
	@scripts/link-verbs
	@scripts/install

uninstall: ## Remove what `make install` has installed
	@scripts/install --remove

clean: ## Remove what was built (downloads stay in .cache)
	@cargo clean --quiet
	@cargo clean --quiet --manifest-path fuzz/Cargo.toml
	@rm -rf .cache/logs
