//! With the feature `bpf`: compiles src/bpf/probe.bpf.c for the kernel's own machine. Needs clang;
//! nothing else does.

#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    reason = "a build script, which cargo talks to through environment and stdout"
)]

use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=src/bpf/probe.bpf.c");
    println!("cargo::rerun-if-env-changed=CLANG");
    if std::env::var_os("CARGO_FEATURE_BPF").is_none() {
        return;
    }
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".into());
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default()).join("probe.bpf.o");
    let machine = match std::env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("aarch64") => "arm64",
        _ => "x86",
    };
    let endian = match std::env::var("CARGO_CFG_TARGET_ENDIAN").as_deref() {
        Ok("big") => "bpfeb",
        _ => "bpfel",
    };
    let mut command = Command::new(&clang);
    command
        .args(["-g", "-O2", "-target", endian, "-mcpu=v3", "-Wall", "-Werror"])
        .arg(format!("-D__TARGET_ARCH_{machine}"))
        .args(["-c", "src/bpf/probe.bpf.c", "-o"])
        .arg(&out);
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(status) => fail(&format!("{clang}: {status}")),
        Err(e) => {
            fail(&format!("{clang}: {e}; install clang (12 or newer) or build without the feature bpf"))
        }
    }
}

/// Ends the build with a message that cargo shows.
fn fail(why: &str) -> ! {
    println!("cargo::error=can't compile src/bpf/probe.bpf.c: {why}");
    std::process::exit(1);
}
