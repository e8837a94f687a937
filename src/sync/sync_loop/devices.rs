//! What plugins offer to pods, and how the devices are that pods have. Pure.

use super::{Command, SyncLoop};
use crate::sync::message::DeviceChange;

impl SyncLoop {
    /// Notes what there is, wakes the pods that the change is about, and judges those anew that have no place.
    pub(super) fn on_devices(&mut self, change: DeviceChange) -> Vec<Command> {
        let DeviceChange { allocatable, health, pods } = change;
        self.devices = health;
        let has_more = self.node.as_mut().is_some_and(|node| node.allocatable.replace(&allocatable));
        let of_them = self
            .workers
            .iter()
            .filter(|(_, worker)| worker.pod.as_ref().is_some_and(|pod| pods.contains(&pod.uid)));
        let names: Vec<_> = of_them.map(|(name, _)| name.clone()).collect();
        let mut commands: Vec<_> = names.iter().filter_map(|name| self.tell(name)).collect();
        if has_more {
            commands.extend(self.tell_waiting());
        }
        commands
    }
}
