//! A thousand truncations and corruptions of live manifests.

use std::fs;
use std::path::{Path, PathBuf};

use rkubelet::testing::{Origin, decode_manifest};

use super::{NO_RESCAN, verdicts};
use crate::manifest;
use crate::rig::{Agent, Rig};

/// A generator of numbers that is the same in every run (SplitMix64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut number = self.0;
        number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((number ^ (number >> 31)) % limit as u64).expect("less than the limit")
    }
}

/// What means something to YAML.
const INDICATORS: &[u8] = b"\t{}[]:&*!|>'\"%@`\n";

/// Damages a text in one of the ways that disks, editors and people do.
fn damage(numbers: &mut Numbers, whole: &[u8]) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    let at = numbers.below(bytes.len());
    match numbers.below(7) {
        0 => bytes.truncate(at),
        1 => bytes[at] = u8::try_from(numbers.below(256)).expect("a byte"),
        2 => bytes[at..].fill(0),
        3 => drop(bytes.drain(at..(at + 1 + numbers.below(40)).min(whole.len()))),
        4 => drop(bytes.splice(at..at, whole[numbers.below(whole.len())..].iter().copied())),
        5 => bytes.insert(at, INDICATORS[numbers.below(INDICATORS.len())]),
        _ => bytes.swap(at, whole.len() - 1 - at),
    }
    bytes
}

/// What the log says of contents that are taken.
fn accepted_as(path: &Path, contents: &[u8]) -> Vec<String> {
    let sha256 = rkubelet::testing::digest(contents);
    vec![format!("manifest accepted file={} ", path.display()), format!("sha256={sha256:?}")]
}

#[test]
fn a_thousand_corruptions_of_live_manifests_restart_nothing_and_each_has_its_verdict() {
    const PODS: usize = 10;
    const ROUNDS: usize = 100;
    let rig = Rig::new();
    let file = |pod: usize| format!("pod-{pod}.yaml");
    let path = |pod: usize| rig.manifest_dir().join(file(pod));
    let whole: Vec<String> = (0..PODS).map(|pod| manifest::idle(&format!("pod-{pod}"))).collect();
    for (pod, text) in whole.iter().enumerate() {
        rig.write_manifest(&file(pod), text);
    }
    let mut agent = rig.start_agent(&[NO_RESCAN]);
    for pod in 0..PODS {
        rig.wait_running(&format!("pod-{pod}-node1"), "main");
    }
    let before = rig.fingerprint();
    let judge = |bytes: &[u8], path: &PathBuf| {
        let path = path.display().to_string();
        let seen = "2026-01-01T00:00:00Z".parse().expect("a time");
        let source = rkubelet::testing::Source::File;
        decode_manifest(
            bytes,
            &Origin { node_name: "node1", source, path: &path, seen, strict: false, kubelet_strict: false },
        )
    };
    let mut numbers = Numbers(6);
    for round in 0..ROUNDS {
        let mut expect = Vec::new();
        for (pod, text) in whole.iter().enumerate() {
            let path = path(pod);
            let hash = judge(text.as_bytes(), &path).expect("the whole manifest is good").pod.hash;
            // What is still valid and says something else is an edit, not a corruption.
            let (bytes, verdict) = loop {
                let bytes = damage(&mut numbers, text.as_bytes());
                match judge(&bytes, &path) {
                    Err(refusal) => break (bytes, Some(refusal)),
                    Ok(decoded) if decoded.pod.hash == hash && bytes != text.as_bytes() => {
                        break (bytes, None);
                    }
                    Ok(_) => {}
                }
            };
            if numbers.below(2) == 0 {
                fs::write(&path, &bytes).expect("damage a manifest in place");
            } else {
                fs::write(rig.dir().join("damaged"), &bytes).expect("write a damaged manifest");
                fs::rename(rig.dir().join("damaged"), &path).expect("move it into place");
            }
            expect.push(match verdict {
                None => accepted_as(&path, &bytes),
                Some(refusal) => {
                    let reason = format!("{}; the last good version runs on", refusal.reason());
                    let field = refusal.first.field;
                    vec![format!(
                        "manifest refused file={} field={field:?} reason={reason:?}",
                        path.display()
                    )]
                }
            });
        }
        // Of every tenth round another agent sees only the damage.
        if round % 10 == 9 {
            agent.kill9();
            agent = rig.start_agent(&[NO_RESCAN]);
        }
        let said = |agent: &Agent<'_>, pod: usize, words: &[String]| {
            let last = verdicts(agent, &file(pod)).pop().unwrap_or_default();
            words.iter().all(|word| last.contains(word))
        };
        for (pod, words) in expect.iter().enumerate() {
            rig.wait(&format!("round {round}: {words:?}"), || said(&agent, pod, words));
        }
        for (pod, text) in whole.iter().enumerate() {
            rig.write_manifest(&file(pod), text);
            let words = accepted_as(&path(pod), text.as_bytes());
            rig.wait(&format!("round {round}: {words:?}"), || said(&agent, pod, &words));
        }
        assert_eq!(rig.fingerprint(), before, "round {round}");
    }
    for pod in 0..PODS {
        assert_eq!(rig.wait_running(&format!("pod-{pod}-node1"), "main").attempt, 0);
    }
}
