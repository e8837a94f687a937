//! Generates the gRPC clients from `proto/`. `protox` parses in Rust: no `protoc` is needed to build.

use std::error::Error;

const FILES: [&str; 5] = [
    "cri/api.proto",
    "containerd/events_service.proto",
    "containerd/task_events.proto",
    "containerd/tasks_service.proto",
    "grpc/health.proto",
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
    Ok(())
}
