# make run       builds and starts name server and broker on embedded defaults, data in ./data
# make test      installs what the tests need and runs them, one real client of each language and protocol included
# make test-all  every test in its full form; make test-all PART=grpc-clients,unit runs some parts
# make bench     Vostok beside Apache RocketMQ and two limit servers; make bench-quick: about 4 minutes

CARGO ?= cargo
DATA ?= ./data

.PHONY: run build test test-all format lint packages book sim powercut bench bench-quick safe-tps fuzz clean

run: build
	./target/release/vostok serve --data $(DATA)

build:
	$(CARGO) build --release --locked
	@tests/tools/split-symbols target/release/vostok

# tests/README.md says how to run one test, one scenario of one client, one simulator seed or one power cut.
test:
	python3 -m tests.run

PART ?=
test-all:
	python3 -m tests.run --all $(if $(PART),--only $(PART))

format:
	$(CARGO) fmt --all --check
	$(CARGO) tree --locked --manifest-path fuzz/Cargo.toml >/dev/null

lint: format
	$(CARGO) clippy --workspace --all-targets --all-features --locked -- -D warnings

# Simulated groups with faults, fresh seeds each time, then every planted bug; make sim MINUTES=20 for more.
MINUTES ?= 1
sim:
	$(CARGO) run --quiet --locked --package vostok-sim --profile sim -- --seconds $$(($(MINUTES) * 60)) --planted

# Power cuts of loop-mounted file systems (ext4, xfs) under load; needs root. make powercut N=5000 for more; SEED=S repeats.
N ?= 100
SEED ?=
powercut:
	python3 -m tests.run --only build
	$$(unshare --mount true 2>/dev/null && echo unshare --mount) target/debug/examples/crash powercut --cuts $(N) $(if $(SEED),--seed $(SEED))

# Throttled disk, network, processor and client: does safe-tps name them? Needs root and an idle machine. RUNS=10 is the full form.
RUNS ?= 1
safe-tps: build
	python3 -m bench.safe_tps --runs $(RUNS)

bench: build
	python3 -m bench.run

bench-quick: build
	python3 -m bench.run --quick

# .deb, .rpm, a static program, an image, a Helm chart below target/packages, tried with the tools that are here (docs/packages.md).
packages:
	ops/packages/build

# docs/ as a book in each language below target/book, with mdBook.
book:
	ops/book/build

clean:
	$(CARGO) clean

# Coverage-guided fuzzing of every codec, one minute each; needs a C++ compiler.
fuzz:
	tests/tools/fuzz
