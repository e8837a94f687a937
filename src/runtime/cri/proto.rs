//! The generated messages and clients of CRI v1 and of containerd's services of events and tasks, and of
//! gRPC's health service; and of kubelet's interface with device plugins.
//!
//! Owns nothing but the generated code and what it must not do by itself: print credentials.
//! Their meaning is in `proto/`.
#![allow(missing_docs, unreachable_pub, deprecated, clippy::all, clippy::pedantic)]

use std::fmt;

tonic::include_proto!("runtime.v1");

/// containerd's event service, `containerd.services.events.v1`.
pub mod event_service {
    tonic::include_proto!("containerd.services.events.v1");
}

/// containerd's service of tasks, `containerd.services.tasks.v1`.
pub mod task_service {
    tonic::include_proto!("containerd.services.tasks.v1");
}

/// The payloads of containerd's events, `containerd.events`.
pub mod task_events {
    tonic::include_proto!("containerd.events");
}

/// gRPC's own health service, `grpc.health.v1`.
pub mod health {
    tonic::include_proto!("grpc.health.v1");
}

/// Registration of device plugins, and what plugins serve, `v1beta1`.
pub mod device_plugin {
    tonic::include_proto!("v1beta1");
}

impl fmt::Debug for AuthConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthConfig")
            .field("username", &self.username)
            .field("server_address", &self.server_address)
            .finish_non_exhaustive()
    }
}
