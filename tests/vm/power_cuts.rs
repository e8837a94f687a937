//! Power cuts at random moments of starts, edits, removals and completions.
//!
//! What the agent has said on its port before the cut is acknowledged: a pod that it called completed does not run again, a
//! pod that was gone stays gone. What lies in the directory when the machine is back runs, each pod once, in the version
//! that its manifest has.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::machine::{Boot, Machine};
use super::node;

/// How often the power is cut, unless `VM_POWER_CUTS` says otherwise.
const CUTS: u32 = 4;
/// Names of pods that are added, edited and removed.
const NAMES: [&str; 3] = ["cut-a", "cut-b", "cut-c"];
/// Where pods that run once leave a line per run.
const RUNS: &str = "/var/lib/vm-runs";

#[derive(Default)]
struct Expected {
    /// The version of each manifest that was written.
    versions: BTreeMap<String, u32>,
    /// Pods that run once, and were seen to be completed.
    completed: BTreeSet<String>,
}

pub(crate) fn at_random_moments(machine: &mut Machine) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seed = number("VM_SEED").unwrap_or_else(|| fastrand::u64(..));
    let cuts = number("VM_POWER_CUTS").unwrap_or(CUTS.into());
    println!("    VM_SEED={seed}, {cuts} power cuts");
    let mut random = fastrand::Rng::with_seed(seed);
    machine.sh(&format!("rm -f {}/*.yaml; mkdir -p {RUNS}; sync", node::MANIFESTS));
    node::put(machine, "steady", &node::idle("steady", "steady-1", ""));
    let names = node::manifests(machine);
    node::wait_at_rest(machine, &names);
    let mut expected = Expected::default();
    for cut in 1..=cuts {
        disturb(machine, &mut random, cut, &mut expected);
        machine.cut_power();
        machine.boot(&Boot::default());
        node::wait_for_agent(machine);
        check(machine, cut, &mut expected);
    }
}

/// Adds, edits and removes pods until a random moment.
fn disturb(machine: &mut Machine, random: &mut fastrand::Rng, cut: u64, expected: &mut Expected) {
    let deadline = Instant::now() + Duration::from_millis(random.u64(500..20_000));
    let once = format!("once-{cut}");
    node::put(machine, &once, &run_once(&once));
    while Instant::now() < deadline {
        let name = NAMES[random.usize(..NAMES.len())];
        let there = node::manifests(machine).contains(name);
        if there && random.u8(..3) == 0 {
            node::take_away(machine, name);
        } else {
            let version = expected.versions.get(name).copied().unwrap_or_default() + 1;
            node::put(machine, name, &node::idle(name, &format!("{name}-{version}"), ""));
            expected.versions.insert(name.to_owned(), version);
        }
        let pause = Instant::now() + Duration::from_millis(random.u64(..4000));
        while Instant::now() < pause.min(deadline) {
            note_completed(machine, expected);
        }
    }
}

fn note_completed(machine: &mut Machine, expected: &mut Expected) {
    for (name, pod) in node::pods(machine).unwrap_or_default() {
        if pod["status"]["phase"] == "Succeeded" {
            expected.completed.insert(name);
        }
    }
}

/// Writes a line, on disk before it ends, and is done.
fn run_once(name: &str) -> String {
    let script = format!("echo run >> /runs/{name}; sync; exit 0");
    node::pod(
        name,
        name,
        &script,
        "    volumeMounts:\n    - {name: runs, mountPath: /runs}\n",
        &format!(
            "  restartPolicy: Never\n  volumes:\n  - name: runs\n    hostPath: {{path: {RUNS}, type: Directory}}\n"
        ),
    )
}

fn runs(machine: &mut Machine) -> BTreeMap<String, usize> {
    let text =
        machine.sh(&format!("cd {RUNS}; wc -l once-* 2>/dev/null | awk '$2 ~ /^once/ {{ print $2, $1 }}'"));
    let pair = |line: &str| {
        line.split_once(' ').and_then(|(name, n)| Some((name.to_owned(), n.trim().parse().ok()?)))
    };
    text.lines().filter_map(pair).collect()
}

fn check(machine: &mut Machine, cut: u64, expected: &mut Expected) {
    let after_boot = runs(machine);
    let names = node::manifests(machine);
    let began = Instant::now();
    // A pod that runs once and was cut off may have failed or be run again; all others run.
    machine.wait(&format!("all pods after cut {cut}"), |machine| {
        node::pods(machine).is_some_and(|pods| {
            pods.keys().cloned().collect::<BTreeSet<_>>() == names
                && pods.iter().all(|(name, pod)| {
                    node::at_rest(pod) || (name.starts_with("once-") && pod["status"]["phase"] == "Failed")
                })
        })
    });
    println!(
        "    cut {cut}: {} pods, at rest {:.0} s after the agent answered",
        names.len(),
        began.elapsed().as_secs_f32()
    );
    let mut wanted: BTreeMap<String, usize> = BTreeMap::from([("steady-1".to_owned(), 1)]);
    for name in names.iter().filter(|name| NAMES.contains(&name.as_str())) {
        let text = machine.sh(&format!("grep -o 'marker:[^\"]*' {}/{name}.yaml", node::MANIFESTS));
        wanted.insert(text.trim().trim_start_matches("marker:").to_owned(), 1);
        // The write was answered before the cut: it is on the disk, whole.
        let version = expected.versions[name];
        assert!(text.contains(&format!("{name}-{version}")), "{text}");
    }
    machine.wait(&format!("one process per pod after cut {cut}: {wanted:?}"), |machine| {
        node::markers(machine) == wanted
    });
    let now = runs(machine);
    for name in &expected.completed {
        assert_eq!(now.get(name), Some(&1), "{name} was completed before: {now:?}\n{}", machine.report());
        assert_eq!(after_boot.get(name), Some(&1), "{name}: {after_boot:?}");
    }
    note_completed(machine, expected);
    machine.wait(&format!("one sandbox and one container per pod after cut {cut}"), |machine| {
        node::tasks(machine).len() == wanted.len() * 2
    });
    let journal = node::journal(machine);
    for name in &names {
        let failed =
            journal.lines().filter(|line| line.contains(name.as_str()) && line.contains("reserved")).count();
        assert!(failed <= 1, "{name} is held back by a name of before the cut: {journal}");
    }
    let crashed = super::boots::crashes(machine);
    assert!(crashed.values().all(|count| *count == 0), "a power cut is no crash: {crashed:?}");
}
