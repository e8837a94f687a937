//! Generates the gRPC clients from `proto/`, and leaves unwind tables out of the release binary. `protox` parses in Rust: no
//! `protoc` is needed to build.

use std::error::Error;
use std::path::{Component, PathBuf};
use std::{env, fs};

const FILES: [&str; 6] = [
    "cri/api.proto",
    "containerd/events_service.proto",
    "containerd/task_events.proto",
    "containerd/tasks_service.proto",
    "grpc/health.proto",
    "kubelet/deviceplugin.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=proto");
    let descriptors = protox::compile(FILES, ["proto"])?;
    tonic_prost_build::configure()
        .build_server(false)
        .build_transport(false)
        .codec_path("crate::runtime::cri::codec::SmallBufferCodec")
        // Ordered maps: two equal messages have equal bytes, and Kubernetes' own maps are ordered too.
        .btree_map(".")
        // Has a Debug of its own, which shows no password.
        .skip_debug([".runtime.v1.AuthConfig"])
        .compile_fds(descriptors)?;
    discard_unwind_tables()
}

/// A release aborts on a panic: nothing reads its unwind tables, which are 8 % of its size.
fn discard_unwind_tables() -> Result<(), Box<dyn Error>> {
    let directory = PathBuf::from(env::var("OUT_DIR")?);
    // Other profiles that inherit from `release` do unwind; only the path tells which one this is.
    let is_release = directory.components().any(|part| part == Component::Normal("release".as_ref()));
    if env::var("CARGO_CFG_TARGET_OS")? != "linux" || !is_release {
        return Ok(());
    }
    let script = directory.join("discard-unwind-tables.ld");
    fs::write(&script, DISCARD_UNWIND_TABLES)?;
    for argument in ["--no-eh-frame-hdr".to_owned(), format!("--script={}", script.display())] {
        println!("cargo::rustc-link-arg-bin=rkubelet=-Wl,{argument}");
    }
    Ok(())
}

/// Both GNU's linker and LLVM's add this to what they do by themselves, because of its last line.
const DISCARD_UNWIND_TABLES: &str = "\
SECTIONS
{
  /DISCARD/ : { *(.eh_frame .eh_frame.* .gcc_except_table .gcc_except_table.*) }
}
INSERT AFTER .text;
";
