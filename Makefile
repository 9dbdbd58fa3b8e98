# Cellerator: `make help` lists what can be made. Everything works from a bare Debian 12 with git,
# make, gcc and Rust.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help build build-deps dist demo test lint advisories fuzz bench bench-probe docs-probe chaos strangers marks deaths middlebox upgrade-test drwa mutants docs docs-pictures docs-contest docs-beside-lab docs-congestion docs-congestion-lab docs-congestion-pages docs-congestion-paths docs-terms docs-bench docs-multipath multipath man package-files deb rpm tarball tarball-arm64 package-test congestion-test rpm-test image-test deps clean without-bpf-test prometheus collectors top-test docs-coupled book book-test recipes chromium query-test test-data docs-datasets docs-router packet-ways kernels docs-kernels firewalls docs-firewalls lint-dataset nightly stress long-test soak tshark windows record-top times docs-marks

CELLERATOR := target/release/cellerator
OUT ?= out
NEEDS_PYTHON := command -v python3 >/dev/null || tools/install-deps --optional python3

help: ## Show this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## (.*)/  make \1\t\2/' | expand -t 22

deps: ## Install what tests and the lab need from Debian, check the Rust version
	@tools/install-deps

build-deps: ## Install what building needs from Debian, check the Rust version
	@tools/install-deps --build

build: build-deps ## Build the program: target/release/cellerator
	cargo build --release --locked --package cellerator --features bpf

dist: build-deps ## Build the program as packages have it: target/dist/cellerator (two thirds of the size, takes much longer)
	cargo build --profile dist --locked --package cellerator --features bpf

demo: deps build ## Run the demo (as root, about four minutes): tables, out/demo/report.html, results.json
	@tools/need-root demo
	$(CELLERATOR) demo --out $(OUT)/demo

test: deps ## Run every test, those in network namespaces too (as root)
	@tools/need-root test
	@$(NEEDS_PYTHON)
	tools/run-tests

without-bpf-test: ## A plain `cargo build`, without clang and libelf, and what it says where BPF is needed
	tools/without-bpf-test

lint: deps ## Check formatting and licences, run clippy with warnings as errors
	cargo fmt --all --check
	cargo fmt --manifest-path dataset/Cargo.toml --check
	@$(NEEDS_PYTHON)
	tools/check-licences . dataset query fuzz
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo clippy --locked -- -D warnings

lint-dataset: deps ## Clippy for dataset, a workspace of its own with another hundred crates
	cargo clippy --manifest-path dataset/Cargo.toml --all-targets --locked -- -D warnings

advisories: ## Ask RustSec's database about all dependencies (needs cargo-deny and a network)
	tools/check-advisories . dataset query fuzz

MINUTES ?= 60
fuzz: ## Fuzz all targets for MINUTES=60 in all, or those in TARGETS (needs nightly and cargo-fuzz): docs/fuzzing.md
	tools/fuzz "$(MINUTES)" $(TARGETS)

bench: deps build ## Measure everything on this machine (as root, about 15 minutes): docs/benchmarks.md
	@tools/need-root bench
	@tools/install-deps --optional haproxy
	@mkdir -p $(OUT)/bench
	@rm -f $(OUT)/bench/results.json
	$(CELLERATOR) bench --json $(OUT)/bench/results.json || echo "  not all parts were measured; the others are kept" >&2
	$(CELLERATOR) lab benchmark --markdown $(OUT)/bench/emulator.md --json $(OUT)/bench/emulator.json
	@tools/write-benchmarks $(OUT)/bench

bench-probe: deps ## How exact the probe is, beside irtt, iperf3 and xfr, and recordings (as root, 15 minutes)
	@tools/need-root bench-probe
	@tools/install-deps --optional irtt iperf3
	@command -v xfr >/dev/null || echo "  without xfr: cargo install xfr" >&2
	@mkdir -p $(OUT)/bench-probe
	@rm -f $(OUT)/bench-probe/results.json
	PROBE_BENCH_OUT=$(abspath $(OUT))/bench-probe/results.json cargo test --release --locked --package cellerator \
	  --test commands -- --ignored --nocapture --test-threads 1 probe::bench:: probe::record::

SECONDS ?= 3600
SEED ?=
chaos: deps ## Disturb an accelerator under load for SECONDS=3600, from SEED=… (as root): CONTRIBUTING.md
	@tools/need-root chaos
	@mkdir -p $(OUT)/chaos
	@mkdir -p /run/cellerator
	CHAOS_SECONDS=$(SECONDS) CHAOS_SEED=$(SEED) CHAOS_OUT=$(abspath $(OUT))/chaos \
	  unshare --mount sh -c 'mount -t tmpfs -o size=96m tmpfs /run/cellerator && \
	  exec cargo test --release --locked --package cellerator-lab --test all chaos:: -- --ignored --nocapture'

# Each test that is ignored names its target; all of them are below, or are parts of these.
NIGHTLY := lint without-bpf-test advisories test lint-dataset book-test long-test tshark top-test prometheus collectors recipes chromium deb \
	package-test congestion-test rpm-test image-test tarball-arm64 kernels firewalls upgrade-test query-test test-data middlebox multipath bench-probe chaos strangers marks deaths soak fuzz
nightly: ## Run every check there is, one after the other (as root, a night): out/nightly has what they say
	@tools/need-root nightly
	tools/run-targets $(OUT)/nightly $(NIGHTLY)

times: deps ## What each check takes, from nothing, into CONTRIBUTING.md (as root, 15 minutes, on a quiet machine)
	@tools/need-root times
	@$(NEEDS_PYTHON)
	tools/time-checks $(OUT)/docs/check-times.json
	$(call WRITE_DOCS,$(abspath $(OUT))/docs/check-times.json)

stress: deps ## Ten runs of tests in real time, one of all others, beside programs that take both processors, and with pauses (as root, hours): out/stress
	@tools/need-root stress
	@$(NEEDS_PYTHON)
	@tools/install-deps --optional stress
	tools/stress-tests $(OUT)/stress 10
	tools/stress-tests $(OUT)/stress-pauses 3 pauses

long-test: deps ## Tests of minutes: a million packets, ten thousand readers, five gigabytes (as root)
	@tools/need-root long-test
	cargo test --release --locked --package cellerator-sim --test all memory:: -- --ignored --nocapture
	cargo test --release --locked --package cellerator-run --test netns -- --ignored --nocapture --test-threads 1
	cargo test --release --locked --package cellerator-run --lib much_data -- --ignored --nocapture

soak: build ## Random runs in virtual time for MINUTES=60: docs/simulation.md
	$(CELLERATOR) sim soak --minutes $(MINUTES)

tshark: deps ## Innermost segments beside those that Wireshark's program finds
	@tools/install-deps --optional tshark
	cargo test --locked --package cellerator-capture --test all layers:: -- --ignored

windows: deps ## No measured link is slower than with a window without bound: TRACES=FOLDER holds the traces
	@test -n "$(TRACES)" || { echo "windows: name the folder of the measured traces: TRACES=FOLDER"; exit 1; }
	CELLERATOR_TRACES=$(abspath $(TRACES)) cargo test --release --locked --package cellerator-sim --test all \
	  windows:: -- --ignored --nocapture

record-top: deps ## Record the samples for the screens of top anew (as root): crates/box/top/tests/recorded
	@tools/need-root record-top
	cargo test --locked --package cellerator --test commands top::record:: -- --ignored

FIRST ?= 1
marks: deps ## Run a million simulated runs whose hosts agree on accurate ECN, from FIRST=1: docs/simulation.md
	cargo run --release --locked --package cellerator --features bpf -- sim soak --marks --seeds 1000000 --first $(FIRST)

strangers: deps ## Run a million simulated runs with strangers beside the hosts, from FIRST=1: docs/simulation.md
	cargo run --release --locked --package cellerator --features bpf -- sim soak --strangers --seeds 1000000 --first $(FIRST)

deaths: deps ## Kill an accelerator a thousand times under load (as root, an hour): docs/operation.md
	@tools/need-root deaths
	cargo test --release --locked --package cellerator-lab --test all h02_killed_a_thousand -- --ignored --nocapture

# The commit before names in the program changed; those on disk and on sockets did not.
BEFORE ?= 00fcfde1
upgrade-test: deps ## Programs of this tree and of the commit BEFORE=00fcfde1 take each other's place with flows (as root)
	@tools/need-root upgrade-test
	git worktree remove --force target/before/source 2>/dev/null || true
	git worktree add --quiet --force --detach target/before/source $(BEFORE)
	cd target/before/source && CARGO_TARGET_DIR=$(abspath target)/before/target \
	  cargo build --release --locked --package cellerator
	git worktree remove --force target/before/source
	CELLERATOR_BEFORE=$(abspath target)/before/target/release/cellerator \
	  cargo test --locked --package cellerator --test commands versions:: -- --ignored --test-threads 1

middlebox: deps ## Tell split connections from whole ones in every cell of a matrix (as root, minutes): docs/probe.md
	@tools/need-root middlebox
	@tools/install-deps --optional haproxy
	cargo test --locked --package cellerator --test commands probe::middlebox:: -- --include-ignored --nocapture

docs-probe: bench-probe ## Run bench-probe, and write its figures into docs/probe.md (on a quiet machine)
	$(call WRITE_DOCS,$(abspath $(OUT))/bench-probe/results.json)

# Keeps what documents need of result files, and writes their blocks and pictures.
TEST_DOCS := cargo test --locked --package cellerator --test commands documents::
WRITE_DOCS = CELLERATOR_WRITE_DOCS=1 CELLERATOR_RESULTS="$(1)" $(TEST_DOCS)documents_hold_the_figures && $(TEST_DOCS)
CONTEST_SCHEMES := direct:cubic,direct:bbr,accel:adaptive
CONTEST_PRESETS := 3g-hspa 4g-lte 4g-lte-drive 5g-sa-drive 5g-nsa-drive
TRACES ?=
TERM_SCENARIOS := $(patsubst %,--scenario experiments/%.toml,ma/table-3 ma/table-4 ma/table-5-64 ma/table-5-110 \
	ma/table-5-fades ma/table-5-held-back wa/figure-3 wa/figure-7 wa/table-1 adaptive/beside)

drwa: deps build ## What [DR] claims, by cellerator drwa in the lab (as root, 40 minutes): out/drwa/reproduction.html
	@tools/need-root drwa
	$(CELLERATOR) reproduce dr --lab --out $(OUT)/drwa

mutants: deps ## Change `control` in 280 places and tell which changes no test notices (an hour; installs cargo-mutants)
	@command -v cargo-mutants > /dev/null || cargo install cargo-mutants --locked
	cargo mutants --package cellerator-control --shard 0/10 --sharding round-robin --timeout 90 --output out

docs: deps build ## Run the demo and write its figures and pictures into the documents (as root, minutes): docs/results
	@tools/need-root docs
	$(CELLERATOR) demo --out $(OUT)/demo
	$(call WRITE_DOCS,$(abspath $(OUT))/demo/results.json)

docs-contest: build ## The same with the contests (ten minutes); TRACES=FOLDER adds the measured traces
	@mkdir -p $(OUT)/docs
	$(CELLERATOR) contest $(CONTEST_PRESETS) --part bulk,short --schemes $(CONTEST_SCHEMES) --limit-delay '20 ms' --json $(OUT)/docs/contest-presets.json
	$(CELLERATOR) contest 4g-lte 4g-lte-drive --part beside=cubic,beside=bbr,beside=quic,beside=quic-bbr --buffer both --seeds 5 \
	  --schemes 'direct:cubic,accel:adaptive,accel:adaptive?schedule=off,accel:adaptive?schedule=off&without=competition' \
	  --json $(OUT)/docs/contest-beside.json
	$(CELLERATOR) contest 3g-hspa 4g-lte 4g-lte-drive 5g-nr 5g-nsa-drive --part alone=cubic:2,alone=quic,alone=quic-bbr \
	  --seeds 3 --schemes 'direct:cubic,accel:adaptive,accel:adaptive?markers=true' --no-limit --json $(OUT)/docs/contest-alone.json
	$(if $(TRACES),cd $(TRACES) && $(abspath $(CELLERATOR)) contest * --schemes $(CONTEST_SCHEMES) --limit-delay '20 ms' --json - >$(abspath $(OUT))/docs/contest-traces.json)
	$(call WRITE_DOCS,$(abspath $(OUT))/docs/contest-presets.json $(abspath $(OUT))/docs/contest-beside.json $(abspath $(OUT))/docs/contest-alone.json $(if $(TRACES),$(abspath $(OUT))/docs/contest-traces.json))

docs-beside-lab: build ## Downloads, an upload, a call and pages beside a download in the lab (as root, twelve minutes): docs/algorithms/adaptive.md
	@tools/need-root docs-beside-lab
	@mkdir -p $(OUT)/docs
	for name in lte drive; do $(CELLERATOR) lab run scenarios/beside/$$name.toml --json $(OUT)/docs/beside-lab-$$name.json; done
	$(call WRITE_DOCS,$(foreach name,lte drive,$(abspath $(OUT))/docs/beside-lab-$(name).json))

docs-pictures: ## Write blocks and pictures of the documents anew from docs/results, without a run
	$(call WRITE_DOCS,)

CONGESTION_SCHEMES := direct:cubic,direct:bbr,direct:bbr3,kernel:adaptive,accel:adaptive
docs-congestion: build ## `adaptive` in the server's kernel, simulated, over round trips of 40 to 300 ms, and beside others: docs/congestion.md, docs/start-vps.md
	@mkdir -p $(OUT)/docs
	for wan in 20 80 180 280; do $(CELLERATOR) contest $(CONTEST_PRESETS) --schemes $(CONGESTION_SCHEMES) --wan-rtt "$$wan ms" --no-limit \
	  --json $(OUT)/docs/congestion-$$((wan + 20)).json; done
	$(CELLERATOR) contest 4g-lte 4g-lte-drive --part beside=cubic,beside=reno,beside=bbr,beside=bbr3,beside=fixed,beside=adaptive:3 --seeds 5 \
	  --schemes direct:cubic,direct:bbr,kernel:adaptive --no-limit --json $(OUT)/docs/congestion-beside.json
	$(call WRITE_DOCS,$(foreach name,40 100 200 300 beside,$(abspath $(OUT))/docs/congestion-$(name).json))

docs-congestion-lab: build ## The same downloads between real kernels over emulated radios (as root, twenty minutes, on a quiet machine): docs/congestion.md
	@tools/need-root docs-congestion-lab
	@mkdir -p $(OUT)/docs
	for wan in 20 180; do $(CELLERATOR) contest $(CONTEST_PRESETS) --lab --schemes direct:cubic,direct:bbr,kernel:adaptive --part bulk \
	  --seconds 30 --wan-rtt "$$wan ms" --no-limit --json $(OUT)/docs/congestion-lab-$$((wan + 20)).json; done
	$(call WRITE_DOCS,$(foreach rtt,40 200,$(abspath $(OUT))/docs/congestion-lab-$(rtt).json))

NEEDS_PAGES = command -v h2load >/dev/null || tools/install-deps --optional nghttp2-client
docs-congestion-pages: deps build ## Pages by nginx over emulated LTE and 5G, by the server's congestion control (as root, twelve minutes): docs/congestion.md, docs/start-vps.md
	@tools/need-root docs-congestion-pages
	@$(NEEDS_PYTHON)
	@$(NEEDS_PAGES)
	tools/measure-pages $(CELLERATOR) $(OUT)/docs/congestion-pages.json
	$(call WRITE_DOCS,$(abspath $(OUT))/docs/congestion-pages.json)

docs-congestion-paths: build ## The server's congestion controls over wired and odd paths, and among flows, simulated (minutes): docs/congestion.md
	@mkdir -p $(OUT)/docs
	for name in paths flows clients; do $(CELLERATOR) sim run scenarios/congestion/$$name.toml --json $(OUT)/docs/congestion-$$name.json; done
	$(call WRITE_DOCS,$(foreach name,paths flows clients,$(abspath $(OUT))/docs/congestion-$(name).json))

docs-terms: build ## What each term of `adaptive` is worth (an hour); TRACES=FOLDER holds the measured traces
	@test -n "$(TRACES)" || { echo "docs-terms: name the folder of the measured traces: TRACES=FOLDER"; exit 1; }
	@mkdir -p $(OUT)/docs
	$(CELLERATOR) sweep eliminate experiments/adaptive/terms/*.toml --traces $(TRACES) $(TERM_SCENARIOS) --repetitions 1 --json $(OUT)/docs/terms.json
	$(call WRITE_DOCS,$(abspath $(OUT))/docs/terms.json)

docs-marks: deps ## Downloads through queues that mark, simulated (two minutes): docs/engine.md
	@mkdir -p $(OUT)/docs
	cargo run --release --locked --package cellerator-sim --example marking_queues >$(OUT)/docs/marking-queues.json
	$(call WRITE_DOCS,$(abspath $(OUT))/docs/marking-queues.json)

docs-bench: bench ## The same with the benchmarks (as root, 15 minutes, on a quiet machine): docs/benchmarks.md
	$(call WRITE_DOCS,$(abspath $(OUT))/bench/results.json)

MULTIPATH_PARTS := $(patsubst %,$(OUT)/docs/multipath/%.json,silent-death-10 silent-death-20 upload-death announced flapping nat \
	readdressed killed without-mptcp stripped stripped-joins ipv6 four-subflows eight-subflows file-8kb file-64kb file-512kb file-4mb)

# One scenario: goes on where an interrupted run ended, unless the program or the scenario has changed.
$(OUT)/docs/multipath/%.json: scenarios/multipath/%.toml $(CELLERATOR)
	@mkdir -p $(@D)
	$(CELLERATOR) lab multipath $< --json $@.new
	@mv $@.new $@

multipath: deps ## Several radios with kernel MPTCP against their aims (as root, 45 minutes): docs/multipath.md
	@tools/need-root multipath
	@test -e /usr/libexec/mptcpd || tools/install-deps --optional mptcpd mptcpd-plugins
	cargo test --release --locked --package cellerator --test commands multipath:: -- --include-ignored --nocapture --test-threads 1

docs-multipath: deps build ## The same, with the figures of docs/multipath.md written anew (as root, 50 minutes)
	@tools/need-root docs-multipath
	@test -e /usr/libexec/mptcpd || tools/install-deps --optional mptcpd mptcpd-plugins
	@$(MAKE) --no-print-directory $(MULTIPATH_PARTS)
	$(CELLERATOR) lab multipath --from-json $(MULTIPATH_PARTS) --json $(OUT)/docs/multipath.json --html $(OUT)/docs/multipath.html
	$(call WRITE_DOCS,$(abspath $(OUT))/docs/multipath.json)

prometheus: deps ## Metrics, rules and alerts with Debian's Prometheus (as root): docs/metrics.md
	@tools/need-root prometheus
	@tools/install-deps --optional prometheus
	cargo test --locked --package cellerator-telemetry
	cargo test --locked --package cellerator --test commands telemetry::metrics::prometheus -- --include-ignored

top-test: deps ## The live view in a real terminal, Debian's tmux (as root): docs/operation.md
	@tools/need-root top-test
	@tools/install-deps --optional tmux
	cargo test --locked --package cellerator-top
	cargo test --locked --package cellerator-top --test all panic::a_panic -- --ignored
	cargo test --locked --package cellerator --test commands top::
	cargo test --locked --package cellerator --test commands top::terminal:: -- --ignored

chromium: deps ## The dashboard and the pages of analyze in Debian's Chromium (as root): docs/dashboard.md
	@tools/need-root chromium
	@tools/install-deps --optional chromium chromium-driver
	cargo test --locked --package cellerator-dashboard
	cargo test --locked --package cellerator --test commands dashboard:: -- --include-ignored --test-threads 1
	cargo test --locked --package cellerator --test commands analyze::page:: -- --include-ignored

DUCKDB := target/tools/duckdb/bin/duckdb
$(DUCKDB):
	@python3 -c 'import ensurepip' 2>/dev/null || tools/install-deps --optional python3-venv
	python3 -m venv target/tools/duckdb
	target/tools/duckdb/bin/pip install --quiet duckdb-cli

collectors: deps $(DUCKDB) ## Records of flows with Debian's nfdump, and as Parquet by DuckDB (as root): docs/metrics.md
	@tools/need-root collectors
	@tools/install-deps --optional nfdump
	PATH="$$PATH:$(abspath target/tools/duckdb/bin)" cargo test --locked --package cellerator --test commands telemetry::collectors:: -- --include-ignored

ENGINES := target/tools/engines
$(ENGINES)/bin/moto_server:
	@python3 -c 'import ensurepip' 2>/dev/null || tools/install-deps --optional python3-venv
	python3 -m venv $(ENGINES)
	$(ENGINES)/bin/pip install --quiet --requirement tools/datasets/requirements.txt

CAPTURES ?= 2000
BYTES ?= 1e10
test-data: deps build $(ENGINES)/bin/moto_server ## Datasets of CAPTURES=2000 with BYTES=1e10, by DuckDB, DataFusion, Spark, Slurm, S3 (as root): docs/datasets.md
	@tools/need-root test-data
	@command -v java >/dev/null || tools/install-deps --optional openjdk-17-jre-headless
	@command -v slurmd >/dev/null && command -v munged >/dev/null || apt-get install --yes --no-install-recommends slurm-wlm munge
	CELLERATOR=$(abspath $(CELLERATOR)) MOTO_SERVER=$(abspath $(ENGINES))/bin/moto_server \
	  cargo test --locked --manifest-path dataset/Cargo.toml
	CELLERATOR=$(abspath $(CELLERATOR)) $(ENGINES)/bin/python tools/datasets/measure $(OUT)/test-data $(CAPTURES) $(BYTES) \
	  $(OUT)/docs/datasets.json

query-test: build ## SQL over captures, by DataFusion: builds a query engine (ten minutes): docs/query.md
	CELLERATOR=$(abspath $(CELLERATOR)) cargo test --locked --manifest-path query/Cargo.toml

docs-datasets: test-data ## The same, with the figures of docs/datasets.md written anew (on a quiet machine)
	$(call WRITE_DOCS,$(abspath $(OUT))/docs/datasets.json)

docs-router: deps build ## Memory and processor time of a NAT router with 512 MB, into docs/recipes.md (as root, a minute)
	@tools/need-root docs-router
	@mkdir -p $(OUT)/docs
	tools/measure-router $(CELLERATOR) $(OUT)/docs/router.json 1000 10000
	$(call WRITE_DOCS,$(abspath $(OUT))/docs/router.json)

ROUNDS ?= 5
packet-ways: deps ## Ways of packets into a program and out of it, side by side, in ROUNDS=5, into docs/packet-ways.md (as root, ten minutes)
	@tools/need-root packet-ways
	@$(NEEDS_PYTHON)
	tools/packet-ways/measure $(OUT)/docs/packet-ways.json $(ROUNDS)
	$(call WRITE_DOCS,$(abspath $(OUT))/docs/packet-ways.json)

NEEDS_MACHINE = command -v qemu-system-x86_64 >/dev/null || tools/install-deps --optional qemu-system-x86; \
	tools/install-deps --optional busybox kmod; command -v wg >/dev/null || tools/install-deps --optional wireguard-tools

kernels: deps build ## The program on Debian's kernels 6.1, 6.12 and the newest, emulated (as root, half an hour): CONTRIBUTING.md
	@tools/need-root kernels
	@$(NEEDS_PYTHON)
	@$(NEEDS_MACHINE)
	tools/kernels/test-kernels $(CELLERATOR) $(OUT)/docs/kernels.json

docs-kernels: deps build ## The same, with README's table written anew, whatever was found
	@tools/need-root docs-kernels
	@$(NEEDS_PYTHON)
	@$(NEEDS_MACHINE)
	tools/kernels/test-kernels $(CELLERATOR) $(OUT)/docs/kernels.json || echo "  not all checks are ok: the table says which" >&2
	$(call WRITE_DOCS,$(abspath $(OUT))/docs/kernels.json)

firewalls: deps ## Each firewall with each way of steering; ufw, firewalld, Docker where they are installed (as root, minutes): docs/firewalls.md
	@tools/need-root firewalls
	tools/test-firewalls $(OUT)/docs/firewalls.json

docs-firewalls: firewalls ## The same, with the table of docs/firewalls.md written anew
	$(call WRITE_DOCS,$(abspath $(OUT))/docs/firewalls.json)

recipes: deps ## The networks of docs/recipes.md, WireGuard by Debian's wireguard-go too (as root)
	@tools/need-root recipes
	@tools/install-deps --optional wireguard-tools wireguard-go
	cargo test --locked --package cellerator --test commands book::recipes:: -- --include-ignored

# A part is one run of each case: the emulators sleep, so that several parts can go on beside each other.
COUPLED_RUNS = $(shell seq $$(sed -n 's/^repetitions = //p' $(1)))
COUPLED_PARTS = $(foreach file,$(sort $(wildcard scenarios/coupled/*.toml)),$(foreach run,$(call COUPLED_RUNS,$(file)),\
	$(OUT)/docs/coupled/$(basename $(notdir $(file)))-$(run).json))

$(OUT)/docs/coupled/%.json: $(CELLERATOR)
	@mkdir -p $(@D)
	@stem=$*; set -x; $(CELLERATOR) lab multipath scenarios/coupled/$${stem%-*}.toml --run $${stem##*-} --json $@.new
	@mv $@.new $@

docs-coupled: deps build ## Coupled congestion controls on [MP]'s links and beside TCPs, into docs/coupled.md (as root, eight parts at a time)
	@tools/need-root docs-coupled
	@$(MAKE) --no-print-directory --jobs 8 $(COUPLED_PARTS)
	$(CELLERATOR) lab multipath --from-json $(COUPLED_PARTS) --json $(OUT)/docs/coupled.json
	$(call WRITE_DOCS,$(abspath $(OUT))/docs/coupled.json)

MDBOOK := target/tools/bin/mdbook
$(MDBOOK):
	cargo install mdbook --version '^0.4' --locked --debug --no-default-features --root target/tools

book: $(MDBOOK) ## The pages of docs as HTML: target/book (installs mdbook below target, a minute the first time)
	tools/book-source target/book-source
	$(MDBOOK) build

# With all packages, as `make test`: nothing is compiled anew for it then. Not a part of it: mdbook is installed for
# it, and links of the pages' sources are checked there.
book-test: deps book ## The same, and every link in it leads somewhere
	cargo test --locked --workspace --test commands book::links:: -- --include-ignored

man: build ## Manual pages of all commands: out/man
	$(CELLERATOR) man --all $(OUT)/man

PACKAGE := target/package
package-files: dist
	@rm -rf $(PACKAGE)
	@mkdir -p $(PACKAGE)/completions
	strip -o $(PACKAGE)/cellerator target/dist/cellerator
	target/dist/cellerator man --all $(PACKAGE)/man
	tools/package-document docs/operation.md >$(PACKAGE)/operation.md
	gzip -9n $(PACKAGE)/man/*.1
	target/dist/cellerator completions bash >$(PACKAGE)/completions/cellerator
	target/dist/cellerator completions zsh >$(PACKAGE)/completions/_cellerator
	target/dist/cellerator completions fish >$(PACKAGE)/completions/cellerator.fish

deb: package-files ## A Debian package: target/debian (installs cargo-deb if it is missing)
	@command -v cargo-deb >/dev/null || cargo install cargo-deb --locked
	@tools/install-deps --optional lintian
	cargo deb --package cellerator --no-build --locked
	@! command -v lintian >/dev/null || lintian --fail-on error target/debian/cellerator_*.deb

rpm: package-files ## An RPM package: target/generate-rpm (installs cargo-generate-rpm if it is missing)
	@command -v cargo-generate-rpm >/dev/null || cargo install cargo-generate-rpm --locked
	cargo generate-rpm --package crates/cli

# The static program of machine $(1), linked by $(2), with its manual: in $(3). The names of its tools begin with $(4). Debian has no libelf for musl: its
# static one does with musl's functions what libbpf asks of it.
define STATIC
@rustup target list --installed | grep -q $(1)-unknown-linux-musl || rustup target add $(1)-unknown-linux-musl
tools/musl-libraries target/musl-$(1) $(1)
CC_$(1)_unknown_linux_musl=$(abspath target/musl-$(1)/bin/cc) LIBBPF_SYS_LIBRARY_PATH=$(abspath target/musl-$(1)/lib) \
  CARGO_TARGET_$(shell echo $(1) | tr a-z A-Z)_UNKNOWN_LINUX_MUSL_LINKER=$(2) \
  cargo build --release --locked --package cellerator --target $(1)-unknown-linux-musl --features static
@rm -rf $(3) && mkdir -p $(3)/cellerator/bin
$(4)strip -o $(3)/cellerator/bin/cellerator target/$(1)-unknown-linux-musl/release/cellerator
cp -r $(PACKAGE)/man $(PACKAGE)/completions packaging/*.service packaging/example.toml NOTICE LICENSE-* $(3)/cellerator/
tar -C $(3) -czf $(3)/cellerator-linux-$(1).tar.gz cellerator
endef

tarball: package-files ## The program without any library that it needs, with its manual: out/tarball
	@command -v musl-gcc >/dev/null || tools/install-deps --optional musl-tools
	$(call STATIC,x86_64,cc,$(OUT)/tarball,)

tarball-arm64: package-files ## The same for arm64, cross-compiled: out/tarball-arm64
	@[ -d /usr/aarch64-linux-gnu/include/asm ] || \
	  tools/install-deps --optional gcc-aarch64-linux-gnu linux-libc-dev-arm64-cross
	$(call STATIC,aarch64,aarch64-linux-gnu-gcc,$(OUT)/tarball-arm64,aarch64-linux-gnu-)

package-test: deb ## Install, start, upgrade, reload, remove the package in a bare Debian 12 (as root, minutes)
	@tools/need-root package-test
	@tools/install-deps --optional debootstrap
	tools/package-test target/debian/cellerator_*.deb

congestion-test: deb ## `congestion install` and the package's unit of it, under systemd in that Debian (as root, minutes)
	@tools/need-root congestion-test
	@tools/install-deps --optional debootstrap
	tools/congestion-test target/debian/cellerator_*.deb

rpm-test: rpm ## Install, upgrade and remove the RPM in the bare Debian of package-test (as root)
	@tools/need-root rpm-test
	@tools/install-deps --optional rpm
	tools/rpm-test "$$(ls -t target/generate-rpm/cellerator-*.rpm | head -1)"

image-test: tarball ## Build the container image without a network, and run its program (as root)
	@tools/need-root image-test
	@tools/install-deps --optional buildah
	tools/image-test $(OUT)/tarball

clean: ## Remove what was built and written
	cargo clean
	rm -rf $(OUT)
