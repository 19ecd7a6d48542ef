# make demo   install what is missing, build, measure this machine and show the result
# make test   everything that must hold: format, lints, docs, tests
# make bench  the figures: against sysbench and fio, interleaved
# make audit  licences, bans and sources of the dependencies

CARGO ?= cargo
# The directory that `make demo` measures where there is no virtual device, and how much it may write there.
DIR ?= $(CURDIR)/target
SIZE ?=

.PHONY: all demo test fmt clippy doc unit bench audit install-build install-test install-peers clean

all:
	$(CARGO) build --release --locked

demo: install-build
	@./scripts/need --optional mkfs.xfs:xfsprogs
	$(CARGO) build --release --locked -p floodwall
	@mkdir -p "$(DIR)"
	./scripts/demo "$(DIR)" "$(SIZE)"

test: install-test fmt clippy doc unit

fmt:
	$(CARGO) fmt --all --check

clippy:
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

doc:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --no-deps --document-private-items

unit:
	$(CARGO) test --locked --workspace

bench: install-build install-peers
	$(CARGO) build --release --locked -p floodwall
	$(CARGO) run --release --locked -p agree -- --floodwall target/release/floodwall $(AGREE)

audit:
	@command -v cargo-deny >/dev/null || $(CARGO) install --locked cargo-deny
	$(CARGO) deny --all-features check licenses bans sources

# As root the packages are installed; as an ordinary user what is missing is named.
install-build:
	@./scripts/need cc:gcc

install-test: install-build
	@./scripts/need --optional mkfs.ext4:e2fsprogs mkfs.xfs:xfsprogs mkfs.btrfs:btrfs-progs jq:jq

install-peers:
	@./scripts/need sysbench:sysbench fio:fio mkfs.ext4:e2fsprogs

clean:
	$(CARGO) clean
