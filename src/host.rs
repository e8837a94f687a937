//! The node around the pods: where their directories and logs lie, volumes, the node's addresses, and the agent's own
//! files.
//!
//! Everything that touches the disk blocks: call it through `smol::unblock`.

pub(crate) mod boot;
pub(crate) mod cgroup;
pub(crate) mod clock;
pub(crate) mod cpu_manager;
pub(crate) mod device_manager;
pub(crate) mod dirs;
pub(crate) mod disk_usage;
pub(crate) mod event_log;
pub(crate) mod file_state;
pub(crate) mod files;
pub(crate) mod inotify;
pub(crate) mod kernel_log;
pub(crate) mod lock;
pub(crate) mod machine;
pub(crate) mod mounts;
pub(crate) mod node_ips;
pub(crate) mod open_below;
pub(crate) mod pod_logs;
pub(crate) mod program;
mod remove_tree;
pub(crate) mod resource;
pub(crate) mod security;
pub(crate) mod state;
pub(crate) mod systemd;
pub(crate) mod termination_message;
pub(crate) mod usage;
pub(crate) mod volume;
mod walk;

pub(crate) use dirs::Dirs;
pub(crate) use files::FileError;
pub(crate) use node_ips::NodeIps;
