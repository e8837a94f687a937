# Everything that a fresh Debian or Ubuntu machine with Rust needs: `make help` lists it.

CARGO ?= cargo
# Debian's names of what the end-to-end tests and the demo run on, and of a C compiler for their pause program.
PACKAGES := containerd runc containernetworking-plugins busybox-static iptables iproute2 util-linux gcc libc6-dev \
  docker-registry apache2-utils minisign nginx openssl faketime systemd prometheus
# The same for the virtual machine; its root file system takes its packages from where apt here has its own from.
VM_PACKAGES := qemu-system-x86 qemu-utils mmdebstrap e2fsprogs util-linux binutils gcc libc6-dev busybox-static
# Root has no need of sudo, and a minimal machine no sudo.
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)
# The tests and the demo make namespaces: they are built as the user, and run as root.
AS_ROOT := $(if $(SUDO),$(SUDO) -E env "PATH=$(PATH)")

# What the release binary may weigh: 7.5 MiB, below a tenth of the Go kubelet (80.5 MiB). Raise it knowingly.
MAX_BYTES := 7864320
MAX_CRATES := 140
# Where cargo builds.
TARGET = $$($(CARGO) metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')

.PHONY: help deps go toolchain build lint unit e2e vm vm-deps vm-test vm-scenarios deny size test simulate kill-volumes demo bench-build bench soak deb containerd e2e-containerd compatibility corpus config-corpus fuzz mutants clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

deps: ## Install the Debian packages that are missing
	@missing=; for package in $(PACKAGES); do \
	  dpkg-query -W -f '$${Status}' $$package 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$package"; \
	done; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	echo "Installing:$$missing"; \
	$(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get update -qq && \
	$(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing

toolchain:
	@$(CARGO) fmt --version >/dev/null 2>&1 && $(CARGO) clippy --version >/dev/null 2>&1 || \
	  rustup component add rustfmt clippy || \
	  { echo "rustfmt and clippy are missing, and rustup cannot add them" >&2; exit 1; }

build: ## Build the release binary
	$(CARGO) build --locked --release

lint: toolchain ## Check format and lints, with and without the feature apiserver
	$(CARGO) fmt --check
	$(CARGO) clippy --locked --all-targets -- -D warnings
	$(CARGO) clippy --locked --all-targets --features apiserver -- -D warnings

unit: ## Run the tests that need no container runtime
	$(CARGO) test --locked --lib --bins --examples
	$(CARGO) test --locked --doc

# A make of its own: `deps` may have run before, for other packages.
vm-deps:
	@$(MAKE) --no-print-directory deps PACKAGES="$(VM_PACKAGES)"

e2e: deps ## Run the end-to-end tests on a private containerd (as root)
	$(CARGO) test --locked --no-run --tests
	$(CARGO) build --locked --example endpoint --example pages
	$(AS_ROOT) $(CARGO) test --locked --test '*'

# A containerd that is newer than Debian's, built once from its Go module into the target directory.
CONTAINERD := 2.1.9
# End-to-end tests that make the calls to the runtime between them: docs/compatibility.md lists the calls.
SELECTION := run:: runtime_outage:: ends:: edit::the_new_instance endings::the_stop_signal logs::every_line \
  hooks::a_container_has_started images::images_are_pulled network::a_network_that_cannot_be_released_holds \
  service_manager::ready runtime_volumes::

containerd: ## Build containerd CONTAINERD=2.1.9 from its Go module, if Go is there
	@set -e; dir=$(TARGET)/containerd/$(CONTAINERD); if [ -x $$dir/containerd ]; then exit 0; fi; \
	case $$(go env GOVERSION 2>/dev/null) in \
	"" | go1.[0-9] | go1.[0-9].* | go1.1[0-9]* | go1.20*) \
	  echo "containerd $(CONTAINERD) is not tested: it is built with Go 1.21 or newer, which is not here"; exit 0 ;; esac; \
	echo "Building containerd $(CONTAINERD) from its Go module; this takes minutes, once ..."; \
	source=$$(cd / && go mod download -json github.com/containerd/containerd/v2@v$(CONTAINERD) | sed -n 's/.*"Dir": "\(.*\)".*/\1/p'); \
	mkdir -p $$dir.unfinished; cd $$source; \
	CGO_ENABLED=0 GOTOOLCHAIN=auto go build -mod=readonly -trimpath -buildvcs=false -tags no_btrfs,no_devmapper,no_zfs \
	  -ldflags '-s -w -X github.com/containerd/containerd/v2/version.Version=$(CONTAINERD)' \
	  -o $$dir.unfinished/ ./cmd/containerd ./cmd/containerd-shim-runc-v2 ./cmd/ctr; \
	mv $$dir.unfinished $$dir

e2e-containerd: deps containerd ## Run a selection of the end-to-end tests on that containerd, if it is there
	@dir=$(TARGET)/containerd/$(CONTAINERD); if [ ! -x $$dir/containerd ]; then exit 0; fi; set -ex; \
	$(CARGO) build --locked --example endpoint; $(CARGO) test --locked --no-run --test e2e; \
	$(AS_ROOT) RKUBELET_CONTAINERD=$$dir $(CARGO) test --locked --test e2e -- $(SELECTION)

compatibility: deps containerd ## Run all end-to-end tests on each containerd that can be had here
	$(CARGO) build --locked --example endpoint
	$(CARGO) test --locked --no-run --test e2e
	@failed=; for dir in /usr/bin $(TARGET)/containerd/$(CONTAINERD); do \
	  if [ ! -x $$dir/containerd ]; then continue; fi; \
	  echo "== $$($$dir/containerd --version)"; \
	  $(AS_ROOT) RKUBELET_CONTAINERD=$$dir $(CARGO) test --locked --test e2e || failed="$$failed $$dir"; \
	done; \
	test -z "$$failed" || { echo "failed on the containerd of:$$failed" >&2; exit 1; }

VM_POWER_CUTS ?= 20

vm: vm-deps ## Boot the virtual machine, with rkubelet and the examples in it, and give a shell
	$(CARGO) build --locked --bin rkubelet --example pages
	$(CARGO) test --locked --no-run --test vm
	@$(AS_ROOT) $(CARGO) test --quiet --locked --test vm -- --shell

vm-test: build ## Run the quick scenarios in the virtual machine, with one power cut
	@$(MAKE) --no-print-directory vm-deps || echo "the packages of the virtual machine cannot be installed"
	$(CARGO) build --locked --example pages
	$(CARGO) test --locked --no-run --test vm
	@binary=$(TARGET)/release/rkubelet; \
	  $(AS_ROOT) env VM_RKUBELET=$$binary VM_SCENARIOS=quick VM_POWER_CUTS=1 VM_MINUTES=20 $(CARGO) test --locked --test vm

vm-scenarios: vm-deps build ## Run all scenarios in the virtual machine, with VM_POWER_CUTS=20 power cuts
	$(CARGO) build --locked --example pages
	$(CARGO) test --locked --no-run --test vm
	@binary=$(TARGET)/release/rkubelet; \
	  $(AS_ROOT) env VM_RKUBELET=$$binary VM_SCENARIOS=all VM_POWER_CUTS=$(VM_POWER_CUTS) $(CARGO) test --locked --test vm

deny: ## Check licences, bans and sources of all crates (installs cargo-deny if it is missing)
	@command -v cargo-deny >/dev/null || $(CARGO) install --locked cargo-deny
	$(CARGO) deny check licenses bans sources

size: build ## Hold the release binary and the number of its crates to their limits
	@binary=$(TARGET)/release/rkubelet; bytes=$$(stat -c %s $$binary); \
	crates=$$($(CARGO) tree --locked -e normal --prefix none | sed 's/ (.*//' | sort -u | wc -l); \
	echo "$$binary: $$bytes bytes of $(MAX_BYTES), $$crates crates of $(MAX_CRATES)"; \
	test $$bytes -le $(MAX_BYTES) && test $$crates -le $(MAX_CRATES)

test: deps lint unit e2e e2e-containerd size ## Format, lints, all tests, size: what CI runs

deb: build ## Build the Debian package, target/deb/rkubelet_VERSION_ARCH.deb
	@target=$(TARGET); set -e; $(CARGO) run --locked --quiet --example pages $$target/deb/pages; \
	version=$$($(CARGO) metadata --format-version 1 --no-deps | sed 's/.*"name":"rkubelet","version":"\([^"]*\)".*/\1/'); \
	package/deb.sh $$target/release/rkubelet $$target/deb/pages $$version $$target/deb

SEEDS ?= 100000

simulate: ## Run the whole agent in SEEDS=100000 simulations; SIMULATE_SEED=N replays one
	SIMULATE_SEEDS=$(SEEDS) $(CARGO) test --locked --profile rig --lib simulation -- --nocapture

demo: deps ## Run the examples on a private containerd until Ctrl-C, or for DEMO_SECONDS=N
	$(CARGO) build --locked --bin rkubelet --example demo
	@$(AS_ROOT) $(TARGET)/debug/examples/demo

# The reference kubelet is built from its Go module, unless one is given.
go:
	@if [ -z "$$REFERENCE_KUBELET" ] && ! command -v go >/dev/null; then \
	  $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get update -qq && \
	  $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends golang; \
	fi

bench-build: deps
	@target=$(TARGET); mkdir -p $$target/bench; set -ex; \
	$(CARGO) build --locked --release --features apiserver --bin rkubelet; \
	cp $$target/release/rkubelet $$target/bench/rkubelet-apiserver; \
	$(CARGO) build --locked --release --bin rkubelet; \
	cp $$target/release/rkubelet $$target/bench/rkubelet; \
	$(CARGO) build --locked --profile rig --example bench

bench: bench-build go ## Measure against the Go kubelet, for about an hour; docs/benchmark.md tells the knobs
	@$(AS_ROOT) $(TARGET)/rig/examples/bench

soak: bench-build ## Let pods come and go for SOAK_MINUTES=30, and see that the agent does not grow
	@BENCH_AGENTS=rkubelet $(AS_ROOT) $(TARGET)/rig/examples/bench soak

kill-volumes: ## Kill the agent 102 times while it prepares and releases volumes: no mount is left, and none is missing
	$(AS_ROOT) env RKUBELET_KILL_ROUNDS=34 $(CARGO) test --locked --test e2e -- volumes::a_killed_agent_leaves_no_mount --nocapture

corpus: PACKAGES := curl openssl
corpus: deps go ## Ask a real API server again for its verdict on every manifest of the corpus
	$(CARGO) build --locked --example corpus
	@target=$(TARGET); $$target/debug/examples/corpus $$target/corpus

config-corpus: deps go ## Ask a real kubelet again whether it starts with each configuration of the corpus
	$(CARGO) build --locked --example config_corpus
	@target=$(TARGET); $(AS_ROOT) $$target/debug/examples/config_corpus $$target/bench

# Coverage for libFuzzer on a stable compiler; build scripts are left alone, for they are built for the host.
FUZZ_FLAGS := -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
  -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
  -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing
# Each is an example fuzz_NAME; the example fuzz_seeds writes its seeds, which run whole before shorter ones are made
# of them.
FUZZ_TARGETS := yaml manifest json list minisig
FUZZ_SECONDS ?= 60

fuzz: PACKAGES := g++
fuzz: deps ## Fuzz what decodes manifests, each for FUZZ_SECONDS=60: no crash, no input over 1 s or 256 MiB
	$(CARGO) build --locked --example fuzz_seeds
	@set -e; host=$$(rustc -vV | sed -n 's/^host: //p'); target=$(TARGET)/fuzz; \
	$(TARGET)/debug/examples/fuzz_seeds $$target/seeds; programs=$$target/$$host/fuzz/examples; \
	RUSTFLAGS="$(FUZZ_FLAGS)" $(CARGO) build --locked --profile fuzz --features fuzz --target $$host \
	  --target-dir $$target $(addprefix --example fuzz_,$(FUZZ_TARGETS)); \
	for name in $(FUZZ_TARGETS); do \
	  echo "== $$name, for $(FUZZ_SECONDS) s"; mkdir -p $$target/corpus/$$name; \
	  limits="-timeout=1 -rss_limit_mb=256 -artifact_prefix=$$target/found-$$name-"; \
	  { $$programs/fuzz_$$name $$limits $$target/seeds/$$name/* && \
	    $$programs/fuzz_$$name $$limits -max_total_time=$(FUZZ_SECONDS) -max_len=65536 -print_final_stats=1 \
	      $$target/corpus/$$name $$target/seeds/$$name; } >$$target/$$name.log 2>&1 || \
	    { tail -n 30 $$target/$$name.log; exit 1; }; \
	  grep '^stat::' $$target/$$name.log; \
	done

# Where a wrong decision hurts most: modules, each with what is inside of it.
HEART := src/plan src/sync src/probe src/time/backoff src/source/dir/files src/source/http/judge \
  src/source/http/pace src/source/http/reading
# Only code that changed since this commit is mutated, unless MUTANTS_ALL=1 asks for the heart, or MUTANTS_FILES names
# modules or files.
MUTANTS_SINCE ?= main
MUTANTS_FILES ?= $(if $(MUTANTS_ALL),$(HEART))
MUTANTS_JOBS ?= 1
# More for cargo-mutants, such as `--shard 0/9` for a ninth of them.
MUTANTS_ARGS ?=

mutants: ## Break what changed since MUTANTS_SINCE=main (MUTANTS_ALL=1: the heart): the unit tests must notice
	@command -v cargo-mutants >/dev/null || $(CARGO) install --locked cargo-mutants
	@set -e; target=$(TARGET)/mutants; mkdir -p $$target; set --; \
	for file in $(MUTANTS_FILES); do \
	  module=$${file%.rs}; test -e $$module.rs || { echo "there is no $$module.rs" >&2; exit 1; }; \
	  set -- "$$@" --file $$module.rs --file "$$module/**"; \
	done; \
	if [ $$# -eq 0 ]; then \
	  git diff $$(git merge-base $(MUTANTS_SINCE) HEAD) -- src >$$target/changes.diff; \
	  test -s $$target/changes.diff || { echo "nothing changed in src since $(MUTANTS_SINCE)"; exit 0; }; \
	  set -- --in-diff $$target/changes.diff; \
	fi; \
	if [ $(MUTANTS_JOBS) -eq 1 ]; then export CARGO_TARGET_DIR=$$target/build; fi; \
	CARGO_PROFILE_DEV_DEBUG=none $(CARGO) mutants --config tests/mutants.toml --jobs $(MUTANTS_JOBS) --output $$target $(MUTANTS_ARGS) "$$@"

clean: ## Remove what was built
	$(CARGO) clean
