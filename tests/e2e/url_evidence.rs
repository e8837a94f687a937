//! What is no evidence that a pod is to go: an edit that is refused, a list that is doubtful, an answer about something
//! else.

use std::io::Write as _;
use std::process::Stdio;

use crate::manifest;
use crate::rig::Rig;
use crate::rig::web::{Server, reply};
use crate::url::{ADDRESS, AGAIN, FAILED, documents, list, start, wait_for};

#[test]
fn a_refused_edit_ends_nobody() {
    let rig = Rig::new();
    let server = Server::start(&rig, ADDRESS);
    let good = documents(&["w", "c"]);
    server.serve(good.clone());
    let agent = start(&rig, &server.url("/pods"), &[]);
    wait_for(&rig, &["w", "c"]);
    let before = rig.fingerprint();
    let with = |first: String| [first, manifest::idle("c")].join("---\n");
    let bad = |name: &str| manifest::idle(name).replace("PeriodSeconds: 1", "PeriodSeconds: 1.5");
    for (name, contents, words) in [
        ("a capital letter", with(manifest::idle("W")), "metadata.name"),
        (
            "a namespace that cannot be",
            with(manifest::idle("w").replace("{name: w}", "{name: w, namespace: a_b}")),
            "metadata.namespace",
        ),
        (
            "two of one name, the first bad",
            [manifest::idle("w"), bad("c"), manifest::script("c", "exec sleep 1000")].join("---\n"),
            "pod default/c-node1 is already defined by http://127.0.0.1:8099/pods document 2",
        ),
    ] {
        server.serve(contents);
        let refused = || agent.log_lines_with("manifest refused");
        rig.wait(&format!("{name} to be refused"), || refused().iter().any(|line| line.contains(words)));
        // A pod that comes after it shows that all of it was taken in.
        let marker = format!("marker{}", refused().len());
        server.serve([good.clone(), manifest::idle(&marker)].join("---\n"));
        wait_for(&rig, &["w", "c", &marker]);
        rig.assert_untouched(&before);
        server.serve(good.clone());
        wait_for(&rig, &["w", "c"]);
    }
    assert!(agent.log_lines_with("manifest is gone").iter().all(|line| line.contains("marker")));
}

#[test]
fn a_list_that_is_doubtful_ends_nobody() {
    let rig = Rig::new();
    let server = Server::start(&rig, ADDRESS);
    let good = list("PodList", &["a", "b"]);
    server.serve(good.clone());
    let agent = start(&rig, &server.url("/pods"), &[]);
    wait_for(&rig, &["a", "b"]);
    let before = rig.fingerprint();
    let doubled = good.replacen('{', r#"{"items": [], "#, 1);
    let last_empty = format!("{}, \"items\": []}}", good.strip_suffix('}').expect("an object"));
    let misspelt = good.replace("\"items\"", "\"item\"").replacen('{', r#"{"items": [], "#, 1);
    for (number, (contents, words)) in [
        (doubled, "items: written more than once"),
        (last_empty.clone(), "items: written more than once"),
        (misspelt, "item: unknown field of the list, did you mean"),
    ]
    .into_iter()
    .enumerate()
    {
        server.serve(contents);
        rig.wait(words, || agent.log_lines_with(FAILED).len() > number);
        let line = agent.log_lines_with(FAILED).pop().expect("a complaint");
        assert!(line.contains(words), "{line}");
        server.serve(good.clone());
        rig.wait("it to be over", || agent.log_lines_with(AGAIN).len() > number);
        assert_eq!(rig.fingerprint(), before, "after {words:?}");
    }

    // The command says the same before anybody serves it.
    let unknown = good.replacen('{', r#"{"annotations": {}, "#, 1);
    for (contents, flags, code, words) in [
        (&last_empty, &["--strict"][..], 1, "refused: items: written more than once"),
        (&unknown, &[], 0, "warning: annotations: unknown field of the list"),
        (&unknown, &["--strict"], 2, "warning: annotations: unknown field of the list"),
        (&unknown, &["--strict-manifests"], 1, "refused: annotations: unknown field of the list"),
    ] {
        let mut command = rig.command(env!("CARGO_BIN_EXE_rkubelet"));
        command.args(["check", "--url-contents"]).args(flags).arg("-");
        let mut check = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("run the check");
        let mut stdin = check.stdin.take().expect("a pipe");
        stdin.write_all(contents.as_bytes()).expect("write the contents");
        drop(stdin);
        let done = check.wait_with_output().expect("wait for the check");
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        assert_eq!((done.status.code(), text.contains(words)), (Some(code), true), "{flags:?}: {text}");
    }
}

#[test]
fn what_a_server_says_of_one_resource_counts_for_no_other() {
    let rig = Rig::new();
    let server = Server::start(&rig, ADDRESS);
    // Every resource has the same tag: a counter that begins anew with each of them.
    let serve = |target: &'static str| {
        let (one, two) = (documents(&["a"]), documents(&["b"]));
        server.answer(move |head, stream| {
            if head.starts_with("GET /pods ") {
                return reply(stream, "302 Found", &format!("Location: {target}\r\n"), b"");
            }
            if head.to_ascii_lowercase().contains("if-none-match: \"1\"") {
                return reply(stream, "304 Not Modified", "", b"");
            }
            let body = if head.starts_with("GET /one ") { &one } else { &two };
            reply(stream, "200 OK", "ETag: \"1\"\r\n", body.as_bytes())
        });
    };
    serve("/one");
    let _agent = start(&rig, &server.url("/pods"), &[]);
    wait_for(&rig, &["a"]);
    rig.wait("an answer that nothing changed", || {
        server
            .requests()
            .iter()
            .any(|head| head.starts_with("GET /one ") && head.to_ascii_lowercase().contains("if-none-match"))
    });
    serve("/two");
    wait_for(&rig, &["b"]);
    let asked_first = |head: &&String| head.starts_with("GET /pods ");
    let heads = server.requests();
    assert!(heads.iter().filter(asked_first).all(|head| !head.contains("one-Match")), "{heads:?}");
}

#[test]
fn a_url_that_is_refused_is_not_printed() {
    let rig = Rig::without_containerd();
    for url in [
        "ftp://user:hush@host/",
        "https://user:hush@ho st/",
        "https://user:hush@host:x/",
        "https://user:hush@/",
        "https:/user:hush@host/",
    ] {
        let mut agent = rig.start_agent(&[&format!("--manifest-url={url}")]);
        assert_eq!(agent.wait_for_end().code(), Some(64), "{url}\n{}", agent.log());
        assert!(!agent.log().contains("hush") && agent.log().contains("manifest-url"), "{}", agent.log());
    }
    let agent = rig.start_agent(&["--manifest-url=HTTPS://user:hush@127.0.0.1:1/"]);
    agent.wait_for_log(FAILED);
    assert!(!agent.log().contains("hush"), "{}", agent.log());
}
