//! Random readings, failures and restarts: desired state shrinks only on evidence.

use std::sync::Arc;

use proptest::prelude::*;

use super::tests::{Disk, contents, pods, restart};
use super::*;
use crate::pod::Pod;

/// What becomes of one file between two readings.
#[derive(Debug, Clone)]
enum Fate {
    Stays,
    Gone,
    /// Holds a version of a pod.
    Holds {
        pod: u8,
        version: u8,
    },
    /// Cannot be decoded.
    Broken(u8),
    /// Cannot be read, or not trusted.
    Refused,
}

#[derive(Debug, Clone)]
enum Step {
    Read([Fate; 4]),
    Unreadable(u8),
    /// The agent is killed after its last write, and started again.
    Restart,
}

fn fate(pods: impl Strategy<Value = u8>) -> impl Strategy<Value = Fate> {
    prop_oneof![
        3 => Just(Fate::Stays),
        1 => Just(Fate::Gone),
        3 => (pods, 0..3u8).prop_map(|(pod, version)| Fate::Holds { pod, version }),
        2 => (0..2u8).prop_map(Fate::Broken),
        1 => Just(Fate::Refused),
    ]
}

/// With `clashes`, all files draw from the same few pods; without, each file has its own.
fn steps(clashes: bool) -> impl Strategy<Value = Vec<Step>> {
    let of = move |file: u8| if clashes { fate((0..4u8).boxed()) } else { fate(Just(file).boxed()) };
    let step = prop_oneof![
        6 => [of(0), of(1), of(2), of(3)].prop_map(Step::Read),
        1 => (0..2u8).prop_map(Step::Unreadable),
        2 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..40)
}

/// The directory as it really is: the contents of each file, `None` for one that cannot be read.
type Directory = BTreeMap<PathBuf, Option<String>>;

fn path(file: usize) -> PathBuf {
    PathBuf::from(format!("f{file}"))
}

/// Lets time pass, and reads what is there then.
fn reading(directory: &mut Directory, fates: &[Fate]) -> DirectoryReading {
    for (file, fate) in fates.iter().enumerate() {
        match fate {
            Fate::Stays => {}
            Fate::Gone => {
                directory.remove(&path(file));
            }
            Fate::Holds { pod, version } => {
                directory.insert(path(file), Some(format!("p{pod} {version}")));
            }
            Fate::Broken(how) => {
                directory.insert(path(file), Some("!".repeat(usize::from(*how) + 1)));
            }
            Fate::Refused => {
                directory.insert(path(file), None);
            }
        }
    }
    let read = |text: &Option<String>| text.as_deref().map_or(FileReading::Refused("no".into()), contents);
    let files = directory.iter().map(|(path, text)| (path.clone(), read(text))).collect();
    DirectoryReading::Files(FoundFiles { files, ..FoundFiles::default() })
}

/// The pods that run, by the file that holds them.
fn running(files: &Files) -> BTreeMap<PathBuf, Arc<Pod>> {
    let runs = |file: &FileState| file.runs.as_ref().and_then(|version| version.pod.clone());
    files.files.iter().filter_map(|(path, file)| Some((path.clone(), runs(file)?))).collect()
}

/// The pod that a file holds by itself, if it holds a valid one.
fn valid(directory: &Directory, path: &Path) -> Option<String> {
    let text = directory.get(path)?.as_deref()?;
    text.split_once(' ').map(|(pod, _)| pod.to_owned())
}

proptest! {
    #[test]
    fn desired_state_shrinks_only_on_evidence(steps in steps(true)) {
        let (mut files, mut disk, mut directory) = (Files::default(), Disk::default(), Directory::new());
        for step in steps {
            let before = running(&files);
            let (readable, snapshot) = match &step {
                Step::Read(fates) => (true, files.apply(reading(&mut directory, fates)).1),
                Step::Unreadable(why) => (false, files.apply(DirectoryReading::Unreadable(why.to_string())).1),
                Step::Restart => {
                    files = restart(&mut files, &mut disk);
                    (false, None)
                }
            };
            disk.save(&mut files);
            let after = running(&files);
            let names: BTreeSet<_> = after.values().map(|pod| pod.name.name.clone()).collect();
            prop_assert_eq!(names.len(), after.len(), "one file per name");
            if !readable {
                let same = before.iter().map(|(path, pod)| (path, &pod.hash)).eq(after.iter().map(|(path, pod)| (path, &pod.hash)));
                prop_assert!(same, "{:?} changed {:?} to {:?}", step, before, after);
            }
            for (path, pod) in &before {
                let (name, holds) = (&pod.name.name, valid(&directory, path));
                // Only the file itself gives up its pod: by its end, or by naming another one.
                let gave_up = !directory.contains_key(path) || holds.as_ref().is_some_and(|other| other != name);
                prop_assert!(names.contains(name) || readable && gave_up, "{} lost {} by {:?}", path.display(), name, step);
                if holds.is_none() && directory.contains_key(path) {
                    prop_assert_eq!(after.get(path).map(|pod| &pod.hash), Some(&pod.hash), "the last good version");
                }
            }
            // Whoever names a pod that nobody else has, has it.
            if readable {
                for path in directory.keys() {
                    if let Some(name) = valid(&directory, path) {
                        prop_assert!(names.contains(&name), "nobody runs {}, which {} holds", name, path.display());
                    }
                }
            }
            if let Some(snapshot) = snapshot {
                prop_assert_eq!(snapshot.pods.len(), after.len());
                let all_good = files.files.values().all(|file| file.good.is_some());
                prop_assert_eq!(snapshot.complete, readable && all_good);
            }
        }
    }

    #[test]
    fn each_file_runs_its_last_good_version(steps in steps(false)) {
        let (mut files, mut disk, mut directory) = (Files::default(), Disk::default(), Directory::new());
        let mut expect: BTreeMap<PathBuf, String> = BTreeMap::new();
        for step in steps {
            match &step {
                Step::Read(fates) => {
                    files.apply(reading(&mut directory, fates));
                    expect.retain(|path, _| directory.contains_key(path));
                    for (path, text) in &directory {
                        if let Some((pod, version)) = text.as_deref().and_then(|text| text.split_once(' ')) {
                            expect.insert(path.clone(), format!("{pod}@{version}"));
                        }
                    }
                }
                Step::Unreadable(why) => drop(files.apply(DirectoryReading::Unreadable(why.to_string()))),
                Step::Restart => files = restart(&mut files, &mut disk),
            }
            disk.save(&mut files);
            let mut wanted: Vec<_> = expect.values().cloned().collect();
            wanted.sort();
            prop_assert_eq!(pods(&files.snapshot(true)), wanted.join(" "), "after {:?}", step);
            let kept: Vec<_> = disk.records.keys().collect();
            prop_assert_eq!(kept, expect.keys().collect::<Vec<_>>(), "what runs is on disk, and nothing else");
        }
    }
}
