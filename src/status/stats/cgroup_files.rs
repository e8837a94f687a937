//! What the files of a cgroup tell. Pure: they are read through a function.

use super::proc_files::parse_pressure;
use super::{CgroupUsage, Detail, DeviceIo, Pressure, cgroup_v1, cgroup_v2};

/// Reads a file of a cgroup, by its controller and its name; none if there is none.
pub(crate) type CgroupFileReader<'a> = &'a dyn Fn(&'static str, &'static str) -> Option<String>;

/// What a cgroup uses.
pub(crate) fn parse_usage(unified: bool, detail: Detail, read: CgroupFileReader<'_>) -> CgroupUsage {
    let mut usage = if unified { cgroup_v2::parse(detail, read) } else { cgroup_v1::parse(detail, read) };
    usage.processes = read("memory", "cgroup.procs").map(|text| text.lines().count() as u64);
    usage
}

/// The number that a file holds.
pub(super) fn number(text: Option<String>) -> Option<u64> {
    text?.trim().parse().ok()
}

/// The number after a key, in a file of lines of both.
pub(super) fn field(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
}

/// A file of pressure.
pub(super) fn pressure(
    read: CgroupFileReader<'_>,
    controller: &'static str,
    file: &'static str,
) -> Option<Pressure> {
    parse_pressure(&read(controller, file)?)
}

/// The device of a list, added if it is not there.
pub(super) fn device<'a>(io: &'a mut Vec<DeviceIo>, name: &str) -> &'a mut DeviceIo {
    let place = io.iter().position(|device| device.device == name).unwrap_or_else(|| {
        io.push(DeviceIo { device: name.to_owned(), ..DeviceIo::default() });
        io.len() - 1
    });
    &mut io[place]
}
