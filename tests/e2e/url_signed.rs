//! Signed contents of the URL, by the real minisign.

use std::fs;
use std::path::Path;

use crate::manifest;
use crate::rig::web::{Server, reply};
use crate::rig::{Agent, Rig};
use crate::url::{ADDRESS, AGAIN, FAILED, documents, reboot, start, wait_for};

/// minisign's files in a directory, with a key of its own.
struct Signer<'rig> {
    rig: &'rig Rig,
    name: &'static str,
}

impl<'rig> Signer<'rig> {
    fn new(rig: &'rig Rig, name: &'static str) -> Self {
        let signer = Self { rig, name };
        let (public, secret) = (signer.public(), signer.secret());
        rig.output("minisign", &["-G", "-W", "-p", &public, "-s", &secret]);
        signer
    }

    fn public(&self) -> String {
        self.rig.dir().join(format!("{}.pub", self.name)).display().to_string()
    }

    fn secret(&self) -> String {
        self.rig.dir().join(format!("{}.key", self.name)).display().to_string()
    }

    /// The signature of a text, with a trusted comment.
    fn sign(&self, text: &str, comment: &str) -> String {
        let path = self.rig.dir().join("signed");
        fs::write(&path, text).expect("write what is signed");
        let path = path.display().to_string();
        self.rig.output("minisign", &["-S", "-m", &path, "-s", &self.secret(), "-t", comment]);
        fs::read_to_string(Path::new(&format!("{path}.minisig"))).expect("read the signature")
    }
}

/// Serves contents, and a signature beside them if there is one.
fn serve_signed(server: &Server, text: &str, signature: Option<&str>) {
    let (text, signature) = (text.to_owned(), signature.map(str::to_owned));
    server.answer(move |head, stream| match (&signature, head.starts_with("GET /pods.minisig?node=1 ")) {
        (_, false) => reply(stream, "200 OK", "", text.as_bytes()),
        (Some(signature), true) => reply(stream, "200 OK", "", signature.as_bytes()),
        (None, true) => reply(stream, "404 Not Found", "", b"no"),
    });
}

#[test]
fn only_what_is_signed_is_taken_and_never_an_older_version() {
    let rig = Rig::new();
    let server = Server::start(&rig, ADDRESS);
    let (ours, theirs) = (Signer::new(&rig, "ours"), Signer::new(&rig, "theirs"));
    let url = server.url("/pods?node=1");
    let flag = format!("--manifest-public-key={}", ours.public());
    let (one, two, three) = (documents(&["a"]), documents(&["a", "b"]), documents(&["a", "b", "c"]));
    let signed_one = ours.sign(&one, "serial:1");
    let signed_two = ours.sign(&two, "serial:2");

    serve_signed(&server, &one, None);
    let agent = start(&rig, &url, &[&flag]);
    let complaint = |agent: &Agent<'_>, words: &str| {
        rig.wait(&format!("a complaint: {words}"), || {
            agent.log_lines_with(FAILED).pop().is_some_and(|line| line.contains(words))
        });
    };
    complaint(&agent, "not signed");
    assert!(rig.sandboxes().is_empty());
    serve_signed(&server, &one, Some(&signed_one));
    wait_for(&rig, &["a"]);
    serve_signed(&server, &two, Some(&signed_two));
    wait_for(&rig, &["a", "b"]);
    let before = rig.fingerprint();

    let taken = |agent: &Agent<'_>| agent.log_lines_with("new contents of the URL").len();
    let so_far = taken(&agent);
    for (text, signature, words) in [
        (&three, Some(signed_two.as_str()), "tampered"),
        (&three, Some(theirs.sign(&three, "serial:3").as_str()), "another key"),
        (&one, Some(&signed_one), "replayed: serial 1 is older than 2"),
        (&three, Some(&ours.sign(&three, "serial:2")), "serial 2 was taken before with other contents"),
        (&three, Some(&ours.sign(&three, "no number")), "no serial"),
        (&three, None, "not signed"),
    ] {
        serve_signed(&server, text, signature);
        complaint(&agent, words);
        // What is good is taken all the same afterwards.
        let recovered = agent.log_lines_with(AGAIN).len();
        serve_signed(&server, &two, Some(&signed_two));
        rig.wait("it to be over", || agent.log_lines_with(AGAIN).len() > recovered);
        assert_eq!(rig.fingerprint(), before, "after {words:?}");
    }
    assert_eq!(taken(&agent), so_far);

    // Also the next agent knows the newest serial.
    agent.kill9();
    serve_signed(&server, &one, Some(&signed_one));
    let agent = start(&rig, &url, &[&flag]);
    complaint(&agent, "replayed");
    rig.assert_untouched(&before);
    serve_signed(&server, &three, Some(&ours.sign(&three, "serial:3")));
    wait_for(&rig, &["a", "b", "c"]);
}

#[test]
fn contents_and_signature_that_are_replaced_one_after_the_other_raise_no_alarm() {
    let rig = Rig::new();
    let server = Server::start(&rig, ADDRESS);
    let ours = Signer::new(&rig, "ours");
    let (one, two) = (documents(&["a"]), documents(&["a", "b"]));
    let (signed_one, signed_two) = (ours.sign(&one, "serial:1"), ours.sign(&two, "serial:2"));
    serve_signed(&server, &one, Some(&signed_one));
    let flag = format!("--manifest-public-key={}", ours.public());
    let agent = start(&rig, &server.url("/pods?node=1"), &[&flag]);
    wait_for(&rig, &["a"]);
    // First the contents; the signature follows once somebody has seen the two apart.
    serve_signed(&server, &two, Some(&signed_one));
    let seen = server.requests().len();
    rig.wait("a look at the half-way state", || {
        server.requests()[seen..].iter().filter(|head| head.contains("minisig")).count() > 1
    });
    serve_signed(&server, &two, Some(&signed_two));
    wait_for(&rig, &["a", "b"]);
    assert_eq!(agent.log_lines_with(FAILED), [""; 0]);
}

#[test]
fn a_new_key_counts_for_contents_that_did_not_change() {
    let rig = Rig::new();
    let server = Server::start(&rig, ADDRESS);
    let (old, new) = (Signer::new(&rig, "old"), Signer::new(&rig, "new"));
    let text = documents(&["a"]);
    let key = rig.dir().join("manifests.pub");
    let serve = |signature: String| {
        let text = text.clone();
        server.answer(move |head, stream| {
            if head.starts_with("GET /pods.minisig ") {
                reply(stream, "200 OK", "", signature.as_bytes())
            } else if head.to_ascii_lowercase().contains("if-none-match: \"1\"") {
                reply(stream, "304 Not Modified", "", b"")
            } else {
                reply(stream, "200 OK", "ETag: \"1\"\r\n", text.as_bytes())
            }
        });
    };
    serve(old.sign(&text, "serial:1"));
    fs::copy(old.public(), &key).expect("put the key there");
    let (url, flag) = (server.url("/pods"), format!("--manifest-public-key={}", key.display()));
    let agent = start(&rig, &url, &[&flag]);
    wait_for(&rig, &["a"]);

    let asked = || server.requests().iter().filter(|head| head.contains("minisig")).count();
    rig.wait("a look that changes nothing", || {
        server.requests().iter().any(|head| head.to_ascii_lowercase().contains("if-none-match"))
    });
    assert_eq!(asked(), 1);
    let before = rig.fingerprint();
    serve(new.sign(&text, "serial:1"));
    fs::copy(new.public(), &key).expect("put the new key there");
    rig.wait("the new signature to be looked at", || asked() > 1);
    // The look after it says that this one was taken.
    let conditional = || {
        let last = server.requests().pop().unwrap_or_default();
        last.to_ascii_lowercase().contains("if-none-match")
    };
    rig.wait("the contents to be taken", conditional);
    agent.kill9();
    server.answer(|_, stream| reply(stream, "503 Service Unavailable", "", b"no"));
    let agent = start(&rig, &url, &[&flag]);
    rig.wait("what was kept to be believed", || {
        !agent.log_lines_with("pods as the URL last held them").is_empty()
    });
    rig.assert_untouched(&before);
}

#[test]
fn a_key_that_returns_brings_nothing_old_back() {
    let rig = Rig::new();
    let server = Server::start(&rig, ADDRESS);
    let (first, second) = (Signer::new(&rig, "first"), Signer::new(&rig, "second"));
    let key = rig.dir().join("manifests.pub");
    let use_key = |signer: &Signer<'_>| {
        fs::copy(signer.public(), &key).expect("put a key there");
    };
    let (old, new) = (documents(&["a"]), documents(&["a", "b"]));
    let replay = first.sign(&old, "serial:5");
    let url = server.url("/pods?node=1");
    let flag = format!("--manifest-public-key={}", key.display());
    use_key(&first);
    serve_signed(&server, &new, Some(&first.sign(&new, "serial:12")));
    let agent = start(&rig, &url, &[&flag]);
    wait_for(&rig, &["a", "b"]);
    // Another key, and contents in which one pod is bad: its last good version is still the first key's.
    let bad =
        manifest::idle("a").replace("terminationGracePeriodSeconds: 1", "terminationGracePeriodSeconds: 1.5");
    let mixed = [bad, manifest::idle("b"), manifest::idle("c")].join("---\n");
    let signed = second.sign(&mixed, "serial:1");
    use_key(&second);
    serve_signed(&server, &mixed, Some(&signed));
    wait_for(&rig, &["a", "b", "c"]);
    use_key(&first);
    serve_signed(&server, &old, Some(&replay));
    rig.wait("a complaint about the replay", || {
        let line = agent.log_lines_with(FAILED).pop();
        line.is_some_and(|line| line.contains("replayed: serial 5 is older than 12"))
    });
    agent.kill9();
    drop(server);

    // After a reboot without the server, nothing starts but what the key of the day signed.
    use_key(&second);
    let next = reboot(&rig);
    let agent = start(&next, &url, &[&flag]);
    agent.wait_for_log(FAILED);
    wait_for(&next, &["b", "c"]);
}

#[test]
fn what_the_key_of_the_day_did_not_sign_is_not_started_again() {
    let rig = Rig::new();
    let server = Server::start(&rig, ADDRESS);
    let (old, new) = (Signer::new(&rig, "old"), Signer::new(&rig, "new"));
    let key = rig.dir().join("manifests.pub");
    fs::copy(old.public(), &key).expect("put the key there");
    let text = documents(&["a"]);
    serve_signed(&server, &text, Some(&old.sign(&text, "serial:1")));
    let flag = format!("--manifest-public-key={}", key.display());
    let agent = start(&rig, &server.url("/pods?node=1"), &[&flag]);
    let container = rig.wait_running("a-node1", "main");
    fs::copy(new.public(), &key).expect("put the new key there");
    agent.wait_for_log("the pod is not trusted any more");
    assert_eq!(rig.wait_running("a-node1", "main").id, container.id, "it runs on");
    rig.kill_process(container.pid);
    rig.wait("the reason to be shown", || {
        let pod = rig.pod("a-node1").unwrap_or_default();
        pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == "SignatureNotTrusted"
    });
    serve_signed(&server, &text, Some(&new.sign(&text, "serial:1")));
    let again = rig.wait_running("a-node1", "main");
    assert_ne!(again.id, container.id);
}
