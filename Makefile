# make demo   install what is missing, build; as root or with user-mode-linux a virtual array, a search on it, a report;
#             else the damage on this machine
# make help   this list
# make check  format, lints and unit tests of the packages that have changed: uncommitted changes, else the last commit
# make test   everything that must hold: format, lints, docs, tests; ends with a table of what ran and what was left out
# make bench  the figures: against sysbench and fio, interleaved
# make lab-2010  the experiment of 2010 on a virtual array; writes docs/reproductions.md (root)
# make published  published command lines of 2007, 2010 and 2016 on virtual arrays; writes docs/reproductions.md (root)
# make lab-record  trials on virtual devices, kept as data that the simulator is held against (root)
# make lab-victims  databases on a virtual array beside a copy or other floods: default, 15 MB, guarded; writes docs/lab.md (root)
# make lab-pace  paced copies and commands, alone and beside a victim, and other ways to copy, also in a guest; writes docs/pace.md (root)
# make lab-usb  commits on the system's disk beside a copy to a slow removable one; writes docs/usb.md (root)
# make reproduce  published experiments and the lab's trials in the simulator; writes docs/reproductions.md, marks stale tables
# make league  settings side by side on every kind of device, in the simulator; writes docs/league.md, marks stale tables
# make frontier  families of levers on six devices, behind real kernels and in the simulator; writes docs/frontier.md (root)
# make matrix  Debian's kernels from 5.10 to 7.x in QEMU, floodwall checked in each; writes docs/kernels.md (no root needed)
# make bpf    the probe's programs for the kernel, compiled again from their source (clang)
# make sanitize  the io_uring engine's memory under Miri and AddressSanitizer (a nightly toolchain with miri)
# make cover  the share of lines that tests reach (COVER='-p floodwall-stats' for one crate)
# make mutants  changes of stats, knobs and guard that their tests do not notice; hours, no root (MUTANTS='-p floodwall-stats' for one crate)
# make fuzz   parsers of untrusted text under a fuzzer, FUZZ_SECONDS each (a nightly toolchain; FUZZ=journal for one)
# make book   the documents as a book with a search, target/book/index.html (mdbook)
# make packages  .deb, .rpm, tarball, bill of materials and checksums in target/packages (TARGET for another processor)
# make audit  licences, bans and sources of the dependencies

CARGO ?= cargo
# The directory that `make demo` measures where there is no virtual device, and how much it may write there.
DIR ?= $(CURDIR)/target
SIZE ?=

.PHONY: all help check demo test fmt clippy doc unit bench lab-2010 published lab-record lab-victims lab-pace lab-usb reproduce league frontier matrix bpf book packages audit cover mutants fuzz install-build install-test install-peers sanitize clean

all:
	$(CARGO) build --release --locked -p floodwall

help:
	@sed -n '/^#/!q; s/^# //p' Makefile

check: fmt
	@packages=$$(./scripts/changed); libs=$$(./scripts/changed --lib); set -ex; \
	if [ -n "$$packages" ]; then $(CARGO) clippy --locked $$packages --all-targets -- -D warnings; \
		$(CARGO) test --locked $$packages --bins; fi; \
	if [ -n "$$libs" ]; then $(CARGO) test --locked $$libs --lib; fi

demo: install-build
	@./scripts/need --optional mkfs.xfs:xfsprogs
	$(CARGO) build --release --locked -p floodwall
	@mkdir -p "$(DIR)"
	./scripts/demo "$(DIR)" "$(SIZE)"

test: install-test fmt clippy doc unit

fmt:
	$(CARGO) fmt --all --check
	./scripts/lines

clippy:
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

doc:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --no-deps --document-private-items

unit:
	CARGO="$(CARGO)" ./scripts/test

bench: install-build install-peers
	$(CARGO) build --release --locked -p floodwall -p agree -p lab-bench -p reproduce
	target/release/agree $(AGREE)
	$(CARGO) run --release --locked -p floodwall-device --example rate
	target/release/reproduce speed
	@./scripts/need --optional chromium:chromium
	$(CARGO) test --quiet --release --locked -p floodwall --test browser -- opening
	$(CARGO) test --quiet --release --locked -p floodwall-knobs --test kernel -- kill-points
	$(CARGO) test --quiet --release --locked -p floodwall --test guest -- 'paces a flood'
	$(CARGO) test --quiet --release --locked -p floodwall --test watch -- cost
	$(CARGO) test --quiet --release --locked -p floodwall --test compat -- speed
	@if [ "$$(id -u)" = 0 ]; then target/release/lab-bench figures; else echo "the lab's figures need root: left out"; fi

# Root, and nothing else running; about 80 minutes; an interrupted run goes on where it was.
lab-2010: install-build install-peers
	$(CARGO) build --release --locked -p floodwall -p lab-bench
	target/release/lab-bench 2010 $(LAB_2010)

# Root, and nothing else running; an interrupted run goes on where it was. PUBLISHED=2007 takes 15 minutes, 2010 45, 2016 two.
published: install-build
	@./scripts/need mkfs.xfs:xfsprogs mkfs.btrfs:btrfs-progs
	$(CARGO) build --release --locked -p floodwall -p lab-bench
	target/release/lab-bench published $(PUBLISHED)

# Root, and nothing else running; hours; an interrupted run goes on where it was.
lab-pace: install-build
	@./scripts/need mkfs.xfs:xfsprogs rsync:rsync ionice:util-linux nocache:nocache git:git restic:restic fio:fio linux.uml:user-mode-linux
	$(CARGO) build --release --locked -p floodwall -p lab-bench
	target/release/lab-bench pace $(LAB_PACE)
	target/release/lab-bench pace --guest $(LAB_PACE)
	target/release/lab-bench pace-alone

# Root, and nothing else running; about 25 minutes; an interrupted run goes on where it was.
lab-usb: install-build
	@./scripts/need fio:fio mkfs.ext4:e2fsprogs
	$(CARGO) build --release --locked -p floodwall -p lab-bench
	target/release/lab-bench usb $(LAB_USB)

lab-record: install-build install-peers
	$(CARGO) build --release --locked -p floodwall -p lab-bench
	target/release/lab-bench record

# Root, and nothing else running; about 45 minutes; an interrupted run goes on where it was.
lab-victims: install-build
	@./scripts/need pg_ctlcluster:postgresql sqlite3:sqlite3 mkfs.xfs:xfsprogs setpriv:util-linux
	@# MariaDB: only the server is needed, not its service.
	@case '$(LAB_VICTIMS)' in *mariadb*) ./scripts/need mariadbd:mariadb-server-core mariadb:mariadb-client-core sysbench:sysbench;; esac
	$(CARGO) build --release --locked -p floodwall -p lab-bench
	target/release/lab-bench victims --out docs/lab.md $(LAB_VICTIMS)

reproduce: install-build
	$(CARGO) build --release --locked -p reproduce
	target/release/reproduce $(REPRODUCE)

# All cores; resumable, a file a cell.
league: install-build
	$(CARGO) build --release --locked -p league
	target/release/league $(LEAGUE)
	@if [ -z "$(LEAGUE)" ]; then target/release/league noise; fi

# Root, and nothing else running; hours, resumable: FRONTIER='guest/hdd' measures some cells, FRONTIER=--missing lists them.
frontier: install-build
	@./scripts/need linux.uml:user-mode-linux mkfs.xfs:xfsprogs
	$(CARGO) build --release --locked -p floodwall -p frontier
	target/release/frontier $(FRONTIER)

# Emulated; the static build comes on top. MATRIX='6.1 --only status' is a quick look.
matrix: install-build
	@./scripts/need apt-get:apt dpkg-deb:dpkg qemu-system-x86_64:qemu-system-x86 xz:xz-utils mkfs.ext4:e2fsprogs setpriv:util-linux
	@./scripts/need --optional mkfs.xfs:xfsprogs mkfs.btrfs:btrfs-progs udevadm:udev
	$(CARGO) build --locked -p matrix
	target/debug/matrix $(MATRIX)

bpf:
	@./scripts/need clang:clang llvm-strip:llvm
	./scripts/bpf-object

# Miri can't make the kernel's calls: it runs the engine on the tests' own kernel. Tests leak on purpose.
sanitize: ASAN = ASAN_OPTIONS=detect_leaks=0 RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address $(CARGO) test \
	--target x86_64-unknown-linux-gnu --target-dir target/sanitize -p floodwall-load
sanitize: install-build
	MIRIFLAGS="-Zmiri-ignore-leaks -Zmiri-disable-isolation" $(CARGO) +nightly miri test -p floodwall-load --lib -- victim::ring
	$(ASAN) --lib -- --include-ignored
	$(ASAN) --test it -- ring

COVER ?= --workspace
# rustc's own version of LLVM.
cover: install-test
	@./scripts/need llvm-cov-22:llvm-22
	@command -v cargo-llvm-cov >/dev/null || $(CARGO) install --locked cargo-llvm-cov
	LLVM_COV=llvm-cov-22 LLVM_PROFDATA=llvm-profdata-22 $(CARGO) llvm-cov --locked --summary-only $(COVER)

MUTANTS ?= -p floodwall-stats -p floodwall-knobs -p floodwall-guard
# As root a changed program would write to this machine's kernel files.
mutants: install-build
	@[ "$$(id -u)" != 0 ] || { echo "make mutants: changed programs must not run as root; run it as another user" >&2; exit 4; }
	@command -v cargo-mutants >/dev/null || $(CARGO) install --locked cargo-mutants
	$(CARGO) mutants --output target $(MUTANTS)

FUZZ_SECONDS ?= 600
fuzz: install-build
	@./scripts/need c++:g++
	@command -v cargo-fuzz >/dev/null || $(CARGO) install --locked cargo-fuzz
	./scripts/fuzz $(FUZZ_SECONDS) $(FUZZ)

book:
	@command -v mdbook >/dev/null || $(CARGO) install --locked mdbook
	./scripts/book

TARGET ?= x86_64-unknown-linux-gnu
packages: install-build
	@for tool in cargo-deb cargo-generate-rpm cargo-cyclonedx; do \
		command -v $$tool >/dev/null || $(CARGO) install --locked $$tool || exit 1; done
	CARGO="$(CARGO)" ./scripts/packages $(TARGET)

audit:
	@command -v cargo-deny >/dev/null || $(CARGO) install --locked cargo-deny
	$(CARGO) deny --all-features check licenses bans sources

# As root the packages are installed; as an ordinary user what is missing is named.
install-build:
	@./scripts/need cc:gcc

install-test: install-build
	@./scripts/need --optional mkfs.ext4:e2fsprogs mkfs.xfs:xfsprogs mkfs.btrfs:btrfs-progs losetup:mount fio:fio iostat:sysstat sysbench:sysbench jq:jq sqlite3:sqlite3 strace:strace chromium:chromium linux.uml:user-mode-linux modprobe:kmod dmsetup:dmsetup bpftrace:bpftrace qemu-system-x86_64:qemu-system-x86 ansible:ansible-core
	@./scripts/kernel-image target/kernel
	@# Where it would start a daemon it is not for us to install.
	@if ./scripts/with-udev --may-install; then ./scripts/need --optional udevadm:udev prometheus:prometheus prometheus-node-exporter:prometheus-node-exporter curl:curl mdadm:mdadm exportfs:nfs-kernel-server pg_ctlcluster:postgresql; fi

install-peers:
	@./scripts/need sysbench:sysbench fio:fio mkfs.xfs:xfsprogs

clean:
	$(CARGO) clean
