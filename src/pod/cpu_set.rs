//! Sets of CPUs, as the kernel and kubelet write them: `0-3,7`.

use std::collections::BTreeSet;
use std::fmt;

/// CPUs by their number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CpuSet(pub(crate) BTreeSet<u32>);

/// The most CPUs that a list may name: a range is written in few characters, and is held in memory.
const MOST: u32 = 1 << 16;

impl CpuSet {
    /// Reads a list; none if it is not one. An empty text is the empty set. The kernel ends a list with a line end.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut all = BTreeSet::new();
        let text = text.trim_end_matches('\n');
        for part in text.split(',').filter(|_| !text.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
            if first > last || last >= MOST {
                return None;
            }
            all.extend(first..=last);
        }
        Some(Self(all))
    }

    /// How many they are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Those of either.
    pub(crate) fn union(&self, other: &Self) -> Self {
        Self(&self.0 | &other.0)
    }

    /// Those that the other has not.
    pub(crate) fn minus(&self, other: &Self) -> Self {
        Self(&self.0 - &other.0)
    }

    /// All of them are in the other.
    pub(crate) fn is_within(&self, other: &Self) -> bool {
        self.0.is_subset(&other.0)
    }

    /// None of them is in the other.
    pub(crate) fn is_apart_from(&self, other: &Self) -> bool {
        self.0.is_disjoint(&other.0)
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(all: I) -> Self {
        Self(all.into_iter().collect())
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for cpu in &self.0 {
            match ranges.last_mut() {
                Some((_, last)) if last.saturating_add(1) == *cpu => *last = *cpu,
                _ => ranges.push((*cpu, *cpu)),
            }
        }
        for (place, (first, last)) in ranges.into_iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            if first == last { write!(f, "{comma}{first}")? } else { write!(f, "{comma}{first}-{last}")? }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_and_written_as_the_kernel_does() {
        for (text, expect) in [
            ("", Some("")),
            ("0", Some("0")),
            ("0-3\n", Some("0-3")),
            (" ", None),
            ("0,2-4,3", Some("0,2-4")),
            ("0-65535", Some("0-65535")),
            ("65536", None),
            ("3,1,2", Some("1-3")),
            ("0,2-3,5", Some("0,2-3,5")),
            ("0-1,1-2", Some("0-2")),
            ("3-2", None),
            ("a", None),
            ("1,", None),
            (" 1", None),
            ("0-4294967295", None),
        ] {
            assert_eq!(CpuSet::parse(text).map(|set| set.to_string()).as_deref(), expect, "{text}");
        }
    }
}
