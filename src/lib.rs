//! rkubelet: a Kubernetes node agent for the machines that nobody visits.

pub mod config;
pub mod cri;
pub mod pod;
pub mod server;
pub mod view;
pub mod yaml;
