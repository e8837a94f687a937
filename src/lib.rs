//! rkubelet: a Kubernetes node agent for the machines that nobody visits.

pub mod backoff;
pub mod config;
pub mod cri;
pub mod observed;
pub mod plan;
pub mod pod;
pub mod pod_config;
pub mod server;
pub mod view;
pub mod yaml;
