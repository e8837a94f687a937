//! What containers need for the devices that they have: the answers of plugins, put together. Pure.

use std::collections::BTreeMap;

use prost::{DecodeError, Message};

use crate::pod::device_assignment::Grants;
use crate::runtime::cri::proto::device_plugin::ContainerAllocateResponse;
use crate::runtime::cri::proto::{CdiDevice, Device, Mount};

/// What a container is given besides what its manifest says.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct DeviceNeeds {
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) mounts: Vec<Mount>,
    pub(crate) devices: Vec<Device>,
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) cdi_devices: Vec<CdiDevice>,
}

impl DeviceNeeds {
    /// What all answers to a container say. Where two say it differently, the first has it, as with kubelet.
    pub(super) fn of(grants: &Grants) -> Result<Self, DecodeError> {
        let mut needs = Self::default();
        for grant in grants.values() {
            needs.add(ContainerAllocateResponse::decode(grant.answer.as_slice())?);
        }
        Ok(needs)
    }

    fn add(&mut self, answer: ContainerAllocateResponse) {
        for (name, value) in answer.envs {
            self.env.entry(name).or_insert(value);
        }
        for (key, value) in answer.annotations {
            self.annotations.entry(key).or_insert(value);
        }
        for device in answer.devices {
            if !self.devices.iter().any(|known| known.container_path == device.container_path) {
                self.devices.push(Device {
                    container_path: device.container_path,
                    host_path: device.host_path,
                    permissions: device.permissions,
                });
            }
        }
        for mount in answer.mounts {
            if !self.mounts.iter().any(|known| known.container_path == mount.container_path) {
                self.mounts.push(Mount {
                    container_path: mount.container_path,
                    host_path: mount.host_path,
                    readonly: mount.read_only,
                    ..Mount::default()
                });
            }
        }
        for device in answer.cdi_devices {
            if !self.cdi_devices.iter().any(|known| known.name == device.name) {
                self.cdi_devices.push(CdiDevice { name: device.name });
            }
        }
    }

    /// The environment with that of the container's own, which has the last word.
    pub(crate) fn env_before(&mut self, own: Vec<(String, String)>) -> Vec<(String, String)> {
        let mut env = std::mem::take(&mut self.env);
        env.retain(|name, _| !own.iter().any(|(other, _)| other == name));
        env.into_iter().chain(own).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::device_assignment::Grant;
    use crate::runtime::cri::proto::device_plugin as api;

    fn text(text: &str) -> String {
        text.to_owned()
    }

    #[test]
    fn answers_are_put_together_and_the_first_has_it() {
        let device = |container: &str, host: &str| api::DeviceSpec {
            container_path: text(container),
            host_path: text(host),
            permissions: text("rw"),
        };
        let mount = |container: &str, host: &str| api::Mount {
            container_path: text(container),
            host_path: text(host),
            read_only: true,
        };
        let first = api::ContainerAllocateResponse {
            envs: [(text("A"), text("1")), (text("B"), text("1"))].into(),
            mounts: vec![mount("/m", "/host/m")],
            devices: vec![device("/dev/a", "/dev/a0")],
            annotations: [(text("x"), text("1"))].into(),
            cdi_devices: vec![api::CdiDevice { name: text("v/c=0") }],
        };
        let second = api::ContainerAllocateResponse {
            envs: [(text("B"), text("2")), (text("C"), text("2"))].into(),
            mounts: vec![mount("/m", "/host/other"), mount("/n", "/host/n")],
            devices: vec![device("/dev/a", "/dev/a1"), device("/dev/b", "/dev/b")],
            annotations: [(text("x"), text("2")), (text("y"), text("2"))].into(),
            cdi_devices: vec![api::CdiDevice { name: text("v/c=0") }, api::CdiDevice { name: text("v/c=1") }],
        };
        let grant = |answer: &api::ContainerAllocateResponse| Grant {
            answer: answer.encode_to_vec(),
            ..Grant::default()
        };
        let grants = [(text("a.com/x"), grant(&first)), (text("b.com/y"), grant(&second))].into();
        let mut needs = DeviceNeeds::of(&grants).unwrap();
        let paths = |list: &[(&str, &str)]| list.iter().map(|(a, b)| (text(a), text(b))).collect::<Vec<_>>();
        let mounts: Vec<_> =
            needs.mounts.iter().map(|m| (m.container_path.clone(), m.host_path.clone())).collect();
        assert_eq!(mounts, paths(&[("/m", "/host/m"), ("/n", "/host/n")]));
        assert!(needs.mounts.iter().all(|mount| mount.readonly));
        let devices: Vec<_> =
            needs.devices.iter().map(|d| (d.container_path.clone(), d.host_path.clone())).collect();
        assert_eq!(devices, paths(&[("/dev/a", "/dev/a0"), ("/dev/b", "/dev/b")]));
        assert_eq!(needs.annotations, paths(&[("x", "1"), ("y", "2")]).into_iter().collect());
        let names: Vec<_> = needs.cdi_devices.iter().map(|device| device.name.as_str()).collect();
        assert_eq!(names, ["v/c=0", "v/c=1"]);
        let env = needs.env_before(paths(&[("C", "own"), ("D", "own")]));
        assert_eq!(env, paths(&[("A", "1"), ("B", "1"), ("C", "own"), ("D", "own")]));
        let broken = [(text("a.com/x"), Grant { answer: vec![0xff], ..Grant::default() })].into();
        assert!(DeviceNeeds::of(&broken).is_err());
    }
}
