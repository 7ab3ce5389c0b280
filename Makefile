# make run    builds and starts name server and broker on embedded defaults, data in ./data
# make test   installs what the tests need and runs all of them, real clients included
# make bench  Vostok beside Apache RocketMQ and two limit servers; make bench-quick: about 4 minutes

CARGO ?= cargo
DATA ?= ./data

.PHONY: run build test unit format lint packages book licences sim interop powercut bench bench-quick safe-tps fuzz clean

run: build
	./target/release/vostok serve --data $(DATA)

build:
	$(CARGO) build --release --locked
	@tests/tools/split-symbols target/release/vostok

test: format build
	tests/tools/run-all

format:
	$(CARGO) fmt --all --check
	$(CARGO) tree --locked --manifest-path fuzz/Cargo.toml >/dev/null

lint: format
	$(CARGO) clippy --workspace --all-targets --all-features --locked -- -D warnings

unit:
	tests/tools/unit

licences:
	tests/tools/licences

# Simulated groups with faults, fresh seeds each time; make sim MINUTES=20 for more.
MINUTES ?= 1
sim:
	tests/tools/sim --seconds $$(($(MINUTES) * 60))

interop: build
	interop/run --against vostok
	interop/run --through-proxy
	interop/mqadmin

# Power cuts of loop-mounted file systems (ext4, xfs) under load; needs root. make powercut N=5000 for more; SEED=S repeats.
N ?= 100
SEED ?=
powercut: build
	tests/tools/powercut --cuts $(N) $(if $(SEED),--seed $(SEED))

# Throttled disk, network, processor and client: does safe-tps name them? Needs root and an idle machine. RUNS=10 is the full form.
RUNS ?= 1
safe-tps: build
	tests/tools/safe-tps --runs $(RUNS)

bench: build
	bench/run

bench-quick: build
	bench/run --quick

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
