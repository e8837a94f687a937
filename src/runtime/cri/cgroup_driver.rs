//! The cgroup driver of the runtime, from its answers. Pure.

use super::containerd_config::ContainerdConfig;
use super::proto::{self, RuntimeConfigResponse, StatusResponse};
use crate::pod::cgroup_name::CgroupDriver;

/// What the runtime says to `RuntimeConfig`; none if it does not say.
pub(super) fn driver_told(answer: &RuntimeConfigResponse) -> Option<CgroupDriver> {
    answer.linux.as_ref().map(|linux| match linux.cgroup_driver() {
        proto::CgroupDriver::Systemd => CgroupDriver::Systemd,
        proto::CgroupDriver::Cgroupfs => CgroupDriver::Cgroupfs,
    })
}

/// What the configuration says that containerd before 2.0 shows; none if there is none, or it does not say.
pub(super) fn driver_shown(answer: &StatusResponse) -> Option<CgroupDriver> {
    match ContainerdConfig::of(answer)?.uses_systemd()? {
        true => Some(CgroupDriver::Systemd),
        false => Some(CgroupDriver::Cgroupfs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::cri::proto::LinuxRuntimeConfiguration;

    #[test]
    fn the_runtime_tells_in_either_answer() {
        for (told, expect) in
            [(Some(0), Some(CgroupDriver::Systemd)), (Some(1), Some(CgroupDriver::Cgroupfs)), (None, None)]
        {
            let linux = told.map(|cgroup_driver| LinuxRuntimeConfiguration { cgroup_driver });
            assert_eq!(driver_told(&RuntimeConfigResponse { linux }), expect);
        }
        let of = |options: &str| {
            format!(
                r#"{{"containerd":{{"defaultRuntimeName":"runc","runtimes":{{"runc":{{"options":{options}}},"x":{{}}}}}}}}"#
            )
        };
        for (config, expect) in [
            (of(r#"{"SystemdCgroup":true,"BinaryName":""}"#), Some(CgroupDriver::Systemd)),
            (of(r#"{"SystemdCgroup":false}"#), Some(CgroupDriver::Cgroupfs)),
            (of("{}"), None),
            (of("null"), None),
            ("{}".to_owned(), None),
            ("not JSON".to_owned(), None),
        ] {
            let info = [("config".to_owned(), config.clone())].into();
            assert_eq!(driver_shown(&StatusResponse { info, ..Default::default() }), expect, "{config}");
        }
    }
}
