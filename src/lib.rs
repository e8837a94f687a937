//! rkubelet: a Kubernetes node agent for the machines that nobody visits.

pub mod agent;
pub mod backoff;
pub mod config;
pub mod cri;
pub mod gc;
pub mod metrics;
pub mod observed;
pub mod plan;
pub mod pleg;
pub mod pod;
pub mod pod_config;
pub mod pod_manager;
pub mod pod_worker;
pub mod runtime;
pub mod server;
pub mod source;
pub mod sync_loop;
pub mod systemd;
pub mod view;
pub mod volume;
pub mod yaml;
