//! Signed manifests: only what the key's owner signed is taken, and never an older version. The real minisign signs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::dir::{NO_RESCAN, assert_managed};
use crate::manifest::{self, journal, journalled};
use crate::rig::{Agent, ContainerState, Rig};

/// A pair of keys of minisign's.
struct Keys {
    secret: PathBuf,
    public: PathBuf,
}

impl Keys {
    fn new(rig: &Rig, name: &str) -> Self {
        let keys = Self {
            secret: rig.dir().join(format!("{name}.key")),
            public: rig.dir().join(format!("{name}.pub")),
        };
        minisign(&["-G", "-f", "-W", "-p", text(&keys.public), "-s", text(&keys.secret)]);
        keys
    }

    /// Signs a file as a version; the signature lies beside it.
    fn sign(&self, file: &Path, comment: &str) -> PathBuf {
        minisign(&["-S", "-s", text(&self.secret), "-m", text(file), "-t", comment]);
        PathBuf::from(format!("{}.minisig", text(file)))
    }

    fn flags(&self) -> [String; 3] {
        let key = format!("--manifest-public-key={}", text(&self.public));
        [NO_RESCAN.to_owned(), key, "--require-signed-files".to_owned()]
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path that is text")
}

fn minisign(args: &[&str]) {
    let output = Command::new("minisign").args(args).output().expect("run minisign");
    assert!(output.status.success(), "minisign {args:?}: {output:?}");
}

fn start<'rig>(rig: &'rig Rig, keys: &Keys) -> Agent<'rig> {
    let flags = keys.flags();
    rig.start_agent(&flags.each_ref().map(String::as_str))
}

/// A manifest and its signature, not yet in the directory.
struct Release {
    manifest: PathBuf,
    signature: PathBuf,
}

impl Release {
    fn new(rig: &Rig, keys: &Keys, contents: &str, comment: &str) -> Self {
        let manifest = rig.dir().join("release");
        fs::write(&manifest, contents).expect("write a release");
        let signature = keys.sign(&manifest, comment);
        Self { manifest, signature }
    }

    fn put_manifest(&self, rig: &Rig, file: &str) {
        fs::copy(&self.manifest, rig.manifest_dir().join(file)).expect("copy a manifest");
    }

    fn put_signature(&self, rig: &Rig, file: &str) {
        fs::copy(&self.signature, rig.manifest_dir().join(format!("{file}.minisig")))
            .expect("copy a signature");
    }

    fn put(&self, rig: &Rig, file: &str) {
        self.put_manifest(rig, file);
        self.put_signature(rig, file);
    }
}

fn refusals(agent: &Agent<'_>) -> Vec<String> {
    agent.log_lines_with("manifest refused")
}

/// Waits for a refusal in these words.
fn wait_refused(rig: &Rig, agent: &Agent<'_>, words: &str) {
    rig.wait(&format!("a refusal: {words}"), || {
        refusals(agent).last().is_some_and(|line| line.contains(words))
    });
}

fn accepted(agent: &Agent<'_>) -> usize {
    agent.log_lines_with("manifest accepted").len()
}

#[test]
fn only_what_is_signed_is_taken_and_never_an_older_version() {
    let rig = Rig::new();
    let (keys, others) = (Keys::new(&rig, "ours"), Keys::new(&rig, "others"));
    let release = |keys: &Keys, instance: &str, comment: &str| {
        Release::new(&rig, keys, &journalled(&rig, "pod", instance), comment)
    };
    rig.write_manifest("unsigned.yaml", &manifest::idle("unsigned"));
    release(&keys, "1", "serial:5").put(&rig, "pod.yaml");
    let agent = start(&rig, &keys);
    rig.wait("the signed pod", || journal(&rig, "pod") == ["start 1"]);
    wait_refused(&rig, &agent, "not signed");
    let audit = agent.log_lines_with("manifest accepted").remove(0);
    let public = fs::read_to_string(&keys.public).expect("the public key");
    let public = public.lines().nth(1).expect("its second line");
    assert!(audit.contains(&format!("signer={public:?}")) && audit.contains("serial=5"), "{audit}");

    release(&keys, "2", "serial:6").put(&rig, "pod.yaml");
    rig.wait("the newer one", || journal(&rig, "pod").last().is_some_and(|line| line == "start 2"));
    assert_eq!(accepted(&agent), 2);

    let edited = journalled(&rig, "pod", "3");
    fs::write(rig.manifest_dir().join("pod.yaml"), &edited).expect("tamper");
    wait_refused(&rig, &agent, "tampered with");
    release(&others, "3", "serial:7").put(&rig, "pod.yaml");
    wait_refused(&rig, &agent, "signed by another key");
    release(&keys, "1", "serial:5").put(&rig, "pod.yaml");
    wait_refused(&rig, &agent, "serial 5 is older than 6");
    release(&keys, "3", "serial:6").put(&rig, "pod.yaml");
    wait_refused(&rig, &agent, "serial 6 was taken before with other contents");
    release(&keys, "3", "no version").put(&rig, "pod.yaml");
    wait_refused(&rig, &agent, "no serial in the trusted comment");
    fs::remove_file(rig.manifest_dir().join("pod.yaml.minisig")).expect("remove the signature");
    wait_refused(&rig, &agent, "not signed");
    assert!(refusals(&agent).last().expect("a line").contains("the last good version runs on"));

    // Not under another name, nor before another agent, nor after the file was gone.
    release(&keys, "1", "serial:5").put(&rig, "other.yaml");
    wait_refused(&rig, &agent, "serial 5 is older than 6");
    agent.kill9();
    let agent = start(&rig, &keys);
    wait_refused(&rig, &agent, "not signed");
    assert_eq!(journal(&rig, "pod"), ["start 1", "asked 1", "end 1", "start 2"], "it ran on all the time");
    for file in ["pod.yaml", "other.yaml", "other.yaml.minisig"] {
        rig.remove_manifest(file);
    }
    rig.wait("the pod to end", || rig.containers_of("pod-node1").is_empty());
    release(&keys, "1", "serial:5").put(&rig, "pod.yaml");
    wait_refused(&rig, &agent, "serial 5 is older than 6");
    release(&keys, "4", "serial:7").put(&rig, "pod.yaml");
    rig.wait("the newest one", || journal(&rig, "pod").last().is_some_and(|line| line == "start 4"));
    assert!(rig.containers_of("unsigned-node1").is_empty());
}

#[test]
fn manifest_and_signature_converge_in_one_update_whichever_comes_first() {
    let rig = Rig::new();
    let keys = Keys::new(&rig, "ours");
    let release = |number: u32| {
        Release::new(&rig, &keys, &journalled(&rig, "pod", &number.to_string()), &format!("serial:{number}"))
    };
    release(1).put(&rig, "pod.yaml");
    let agent = start(&rig, &keys);
    rig.wait("release 1", || journal(&rig, "pod") == ["start 1"]);
    for number in 2..6 {
        let next = release(number);
        let halves: [&dyn Fn(); 2] =
            [&|| next.put_manifest(&rig, "pod.yaml"), &|| next.put_signature(&rig, "pod.yaml")];
        let said = refusals(&agent).len();
        halves[number as usize % 2]();
        // The half alone is seen, and refused, in the first rounds; later the other one follows at once.
        if number < 4 {
            rig.wait("a refusal of the half", || refusals(&agent).len() > said);
        }
        halves[1 - number as usize % 2]();
        rig.wait("the release", || journal(&rig, "pod").last() == Some(&format!("start {number}")));
        assert_eq!(accepted(&agent), number as usize, "one update each\n{}", agent.log());
    }
    assert_eq!(refusals(&agent).len(), 2, "what follows at once is not refused first\n{}", agent.log());
    assert_eq!(journal(&rig, "pod").iter().filter(|line| line.starts_with("start")).count(), 5);
}

#[test]
fn a_new_key_counts_at_once_and_a_lost_one_ends_nothing() {
    let rig = Rig::new();
    let (keys, next) = (Keys::new(&rig, "ours"), Keys::new(&rig, "next"));
    let pod = manifest::idle("pod");
    Release::new(&rig, &keys, &pod, "serial:1").put(&rig, "pod.yaml");
    let agent = start(&rig, &keys);
    rig.wait_running("pod-node1", "main");
    let before = rig.fingerprint();
    let original = fs::read(&keys.public).expect("the public key");

    fs::write(&keys.public, "lost").expect("ruin the key");
    wait_refused(&rig, &agent, "not a public key");
    fs::remove_file(&keys.public).expect("remove the key");
    wait_refused(&rig, &agent, "cannot read the public key");
    fs::copy(&next.public, &keys.public).expect("replace the key");
    wait_refused(&rig, &agent, "signed by another key");
    assert_eq!(rig.fingerprint(), before);
    // Signed anew, it is the same pod.
    let taken = accepted(&agent);
    Release::new(&rig, &next, &pod, "serial:2").put(&rig, "pod.yaml");
    rig.wait("the new signature", || accepted(&agent) == taken + 1);
    assert_eq!(rig.fingerprint(), before);

    // A key that is wrong at the start ends nothing either.
    agent.kill9();
    fs::write(&keys.public, original).expect("put the old key back");
    let agent = start(&rig, &keys);
    wait_refused(&rig, &agent, "signed by another key");
    Release::new(&rig, &keys, &manifest::idle("later"), "serial:1").put(&rig, "later.yaml");
    rig.wait_running("later-node1", "main");
    rig.assert_untouched(&before);
}

#[test]
fn what_a_replaced_key_signed_is_not_started() {
    let rig = Rig::new();
    let (keys, next) = (Keys::new(&rig, "ours"), Keys::new(&rig, "next"));
    Release::new(&rig, &keys, &manifest::idle("pod"), "serial:1").put(&rig, "pod.yaml");
    let agent = start(&rig, &keys);
    rig.wait_running("pod-node1", "main");
    agent.kill9();
    // The runtime forgets, as after a boot; the key is another one now.
    rig.prune("pod-node1");
    let original = fs::read(&keys.public).expect("the public key");
    fs::copy(&next.public, &keys.public).expect("replace the key");
    let agent = start(&rig, &keys);
    agent.wait_for_log("the last good version is not used");
    wait_refused(&rig, &agent, "signed by another key");
    Release::new(&rig, &next, &manifest::idle("later"), "serial:1").put(&rig, "later.yaml");
    rig.wait_running("later-node1", "main");
    assert!(rig.containers_of("pod-node1").is_empty());
    agent.kill9();
    // Nor is it started while its directory is away, until its key counts again.
    let aside = rig.dir().join("aside");
    fs::rename(rig.manifest_dir(), &aside).expect("move the directory away");
    let agent = start(&rig, &keys);
    agent.wait_for_log("cannot read the manifests");
    assert_managed(&rig, "later-node1");
    assert!(rig.containers_of("pod-node1").is_empty());
    agent.kill9();
    fs::write(&keys.public, original).expect("put the old key back");
    let _agent = start(&rig, &keys);
    rig.wait_running("pod-node1", "main");
}

#[test]
fn what_the_key_of_the_day_did_not_sign_runs_on_and_is_not_started_again() {
    let rig = Rig::new();
    let (keys, next) = (Keys::new(&rig, "ours"), Keys::new(&rig, "next"));
    let (dies, lost, stays) = (manifest::idle("dies"), manifest::idle("lost"), manifest::idle("stays"));
    for (file, text) in [("dies.yaml", &dies), ("lost.yaml", &lost), ("stays.yaml", &stays)] {
        Release::new(&rig, &keys, text, "serial:1").put(&rig, file);
    }
    let agent = start(&rig, &keys);
    let [first, _, untouched] =
        ["dies-node1", "lost-node1", "stays-node1"].map(|pod| rig.wait_running(pod, "main"));
    fs::copy(&next.public, &keys.public).expect("replace the key");
    rig.wait("all three to be distrusted", || {
        agent.log_lines_with("the pod is not trusted any more").len() >= 3
    });

    // One container dies, and the runtime loses another pod.
    rig.kill_process(first.pid);
    rig.prune("lost-node1");
    let waiting = |pod: &str| {
        let pod = rig.pod(pod).unwrap_or_default();
        pod["status"]["containerStatuses"][0]["state"]["waiting"].clone()
    };
    for pod in ["dies-node1", "lost-node1"] {
        rig.wait("the reason to be shown", || waiting(pod)["reason"] == "SignatureNotTrusted");
        let message = waiting(pod)["message"].to_string();
        assert!(message.contains("it was signed by"), "{message}");
    }
    // What the key of the day signed is started as ever, after all of that was seen.
    Release::new(&rig, &next, &manifest::idle("later"), "serial:1").put(&rig, "later.yaml");
    rig.wait_running("later-node1", "main");
    let alive =
        |pod: &str| rig.containers_of(pod).iter().filter(|c| c.state == ContainerState::Running).count();
    assert_eq!((alive("dies-node1"), alive("lost-node1")), (0, 0));
    assert_eq!(rig.wait_running("stays-node1", "main").id, untouched.id);

    for (file, text) in [("dies.yaml", &dies), ("lost.yaml", &lost)] {
        Release::new(&rig, &next, text, "serial:2").put(&rig, file);
    }
    rig.wait_running("dies-node1", "main");
    rig.wait_running("lost-node1", "main");
    assert_eq!(rig.wait_running("stays-node1", "main").id, untouched.id);
}

#[test]
fn what_was_taken_unsigned_is_not_started_once_signatures_are_required() {
    let rig = Rig::new();
    let keys = Keys::new(&rig, "ours");
    rig.write_manifest("pod.yaml", &manifest::idle("pod"));
    let agent = rig.start_agent(&[]);
    rig.wait_running("pod-node1", "main");
    agent.kill9();
    let before = rig.fingerprint();
    let agent = start(&rig, &keys);
    wait_refused(&rig, &agent, "not signed");
    Release::new(&rig, &keys, &manifest::idle("signed"), "serial:1").put(&rig, "signed.yaml");
    rig.wait_running("signed-node1", "main");
    // It is left alone: neither ended nor looked after.
    rig.assert_untouched(&before);
    assert!(rig.pod("pod-node1").is_none());
}

#[test]
fn signatures_cannot_be_required_without_a_key() {
    let rig = Rig::without_containerd();
    let mut agent = rig.start_agent(&["--require-signed-files"]);
    assert_eq!(agent.wait_for_end().code(), Some(64));
    assert!(agent.log().contains("--require-signed-files needs --manifest-public-key"), "{}", agent.log());
}
