//! Since when files are missing: each has its own grace, since each may be on its way back. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Known files that are not there, and since when that is certain.
#[derive(Debug, Default)]
pub(in crate::source::dir) struct MissingFiles(BTreeMap<PathBuf, Instant>);

impl MissingFiles {
    /// Takes in which known files a reading that `ended` then did not find. One that was `just_removed` was there in
    /// between: its grace begins anew.
    pub(in crate::source::dir) fn note(
        &mut self,
        lost: Vec<PathBuf>,
        just_removed: impl Fn(&Path) -> bool,
        ended: Instant,
    ) {
        let before = std::mem::take(&mut self.0);
        let since = |path: PathBuf| {
            let since = before.get(&path).filter(|_| !just_removed(&path)).copied();
            (path, since.unwrap_or(ended))
        };
        self.0 = lost.into_iter().map(since).collect();
    }

    /// Those that had not been missing for the whole grace when the reading `began`.
    pub(in crate::source::dir) fn in_grace(&self, grace: Duration, began: Instant) -> BTreeSet<PathBuf> {
        let waiting = self.0.iter().filter(|(_, since)| **since + grace > began);
        waiting.map(|(path, _)| path.clone()).collect()
    }

    /// How long after the reading the first grace of these is over.
    pub(in crate::source::dir) fn until_over(
        &self,
        grace: Duration,
        began: Instant,
        ended: Instant,
    ) -> Option<Duration> {
        let ends = self.0.values().map(|since| *since + grace).filter(|end| *end > began);
        ends.min().map(|end| end.saturating_duration_since(ended))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: u64 = 150;

    /// When a reading began and ended, the files it missed, and which of them were removed just before it; then
    /// those that are waited for, and for how long after it.
    type Step<'a> = (&'a str, (u64, u64), &'a [&'a str], &'a [&'a str], &'a [&'a str], Option<u64>);

    #[test]
    fn each_file_is_gone_when_its_own_grace_is_over() {
        let runs: [&[Step<'_>]; 6] = [
            &[
                ("one is missing", (0, 1), &["a"], &["a"], &["a"], Some(150)),
                ("and stays so", (151, 152), &["a"], &[], &[], None),
            ],
            &[
                ("one is missing", (0, 1), &["a"], &["a"], &["a"], Some(150)),
                ("another went just now", (151, 152), &["a", "b"], &["b"], &["b"], Some(150)),
                ("it came back", (302, 303), &[], &[], &[], None),
            ],
            &[
                ("one is missing", (0, 0), &["a"], &[], &["a"], Some(150)),
                ("then another", (100, 100), &["a", "b"], &[], &["a", "b"], Some(50)),
                ("the first may go", (150, 150), &["a", "b"], &[], &["b"], Some(100)),
                ("the second, too", (250, 250), &["b"], &[], &[], None),
            ],
            &[
                ("one is missing", (0, 0), &["a"], &[], &["a"], Some(150)),
                ("is back", (100, 100), &[], &[], &[], None),
                ("and missing again", (200, 200), &["a"], &[], &["a"], Some(150)),
            ],
            &[
                ("one is missing", (0, 0), &["a"], &[], &["a"], Some(150)),
                ("was back in between", (150, 150), &["a"], &["a"], &["a"], Some(150)),
            ],
            &[
                ("it may have gone at the end of a long reading", (0, 400), &["a"], &[], &["a"], Some(150)),
                ("and have come back during another", (500, 900), &["a"], &[], &["a"], Some(0)),
                ("it is gone", (900, 901), &["a"], &[], &[], None),
            ],
        ];
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let grace = Duration::from_millis(GRACE);
        for run in runs {
            let mut missing = MissingFiles::default();
            for (name, (began, ended), lost, removed, expect, over) in run {
                let lost = lost.iter().map(PathBuf::from).collect();
                missing.note(lost, |path| removed.iter().any(|name| path == Path::new(name)), at(*ended));
                let expect: BTreeSet<_> = expect.iter().map(PathBuf::from).collect();
                assert_eq!(missing.in_grace(grace, at(*began)), expect, "{name}");
                let found = missing.until_over(grace, at(*began), at(*ended));
                assert_eq!(found, over.map(Duration::from_millis), "{name}");
            }
        }
    }

    #[test]
    fn a_longer_grace_holds_from_the_first_miss() {
        let (mut missing, start) = (MissingFiles::default(), Instant::now());
        missing.note(vec!["a".into()], |_| false, start);
        let (short, long) = (Duration::from_millis(GRACE), Duration::from_secs(3));
        assert!(missing.in_grace(short, start + short).is_empty());
        assert_eq!(missing.in_grace(long, start + short).len(), 1);
        assert_eq!(missing.until_over(long, start + short, start + short), Some(long - short));
    }
}
