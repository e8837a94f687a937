//! Texts with any number of pods.

use super::*;
use crate::pod::Source;

const SPEC: &str = "spec: {containers: [{name: c, image: i}]}";

fn origin() -> Origin<'static> {
    Origin {
        node_name: "n",
        source: Source::Http,
        path: "url",
        seen: jiff::Timestamp::UNIX_EPOCH,
        strict: false,
        kubelet_strict: false,
    }
}

fn pod(name: &str) -> String {
    format!("{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, {SPEC}}}")
}

/// `path|name` for each pod, `path|name! field` for each refusal.
fn told(text: &str) -> Vec<String> {
    let items = match decode_list(text.as_bytes(), &origin()) {
        Ok(items) => items,
        Err(refusal) => return vec![format!("! {refusal}")],
    };
    let each = items.into_iter().map(|item| {
        let name = item.name.map_or("?".to_owned(), |name| name.to_string());
        let fault = item.decoded.err().map(|refusal| format!("! {}", refusal.first.field));
        format!("{}|{name}{}", item.path, fault.unwrap_or_default())
    });
    each.collect()
}

#[test]
fn pods_are_found_wherever_they_stand() {
    let (a, b) = (pod("a"), pod("b"));
    let bare = format!("{{metadata: {{name: a}}, {SPEC}}}");
    let cases: &[(&str, String, &[&str])] = &[
        ("one pod", a.clone(), &["|default/a-n"]),
        ("two documents", format!("{a}\n---\n{b}"), &["document 1|default/a-n", "document 2|default/b-n"]),
        (
            "a PodList",
            format!("{{apiVersion: v1, kind: PodList, items: [{bare}, {b}]}}"),
            &["items[0]|default/a-n", "items[1]|default/b-n"],
        ),
        ("a List", format!("{{apiVersion: v1, kind: List, items: [{a}]}}"), &["items[0]|default/a-n"]),
        (
            "items of a List say what they are",
            format!("{{apiVersion: v1, kind: List, items: [{bare}]}}"),
            &["items[0]|?! kind"],
        ),
        (
            "a list among documents",
            format!("{a}\n---\n{{apiVersion: v1, kind: List, items: [{b}]}}"),
            &["document 1|default/a-n", "document 2 items[0]|default/b-n"],
        ),
        (
            "empty documents are counted",
            format!("---\n# nothing\n---\n{a}\n---\n---\n{b}"),
            &["document 2|default/a-n", "document 4|default/b-n"],
        ),
        ("JSON", r#"{"apiVersion":"v1","kind":"PodList","items":[]}"#.to_owned(), &[]),
        ("an empty List", "{apiVersion: v1, kind: List, items: []}".to_owned(), &[]),
    ];
    for (name, text, expect) in cases {
        assert_eq!(told(text), *expect, "{name}");
    }
}

#[test]
fn what_is_no_pod_is_refused_alone() {
    let (a, bad) = (pod("a"), "{apiVersion: v1, kind: Pod, metadata: {name: bad, namespace: x}, spec: {}}");
    let cases: &[(&str, String, &[&str])] = &[
        ("nothing", String::new(), &["! holds no document"]),
        ("comments", "# nothing\n---\n".to_owned(), &["! holds no document"]),
        ("a page", "<html><body>Bad gateway</body></html>".to_owned(), &["|?! "]),
        ("a number", "5".to_owned(), &["|?! "]),
        ("an array", "[]".to_owned(), &["|?! "]),
        ("another kind", "{apiVersion: v1, kind: Service, metadata: {name: s}}".to_owned(), &["|?! kind"]),
        ("a Status", r#"{"kind":"Status","apiVersion":"v1","code":500}"#.to_owned(), &["|?! kind"]),
        ("no items", "{apiVersion: v1, kind: PodList}".to_owned(), &["|?! items"]),
        ("null items", "{apiVersion: v1, kind: PodList, items: null}".to_owned(), &["|?! items"]),
        ("no version", "{kind: PodList, items: []}".to_owned(), &["|?! apiVersion"]),
        (
            "a part of a list",
            "{apiVersion: v1, kind: PodList, metadata: {continue: abc}, items: []}".to_owned(),
            &["|?! metadata.continue"],
        ),
        (
            "a bad one among good ones has its name",
            format!("{{apiVersion: v1, kind: List, items: [{a}, {bad}]}}"),
            &["items[0]|default/a-n", "items[1]|x/bad-n! spec.containers"],
        ),
        ("one without a name", format!("{{apiVersion: v1, kind: Pod, {SPEC}}}"), &["|?! metadata.name"]),
    ];
    for (name, text, expect) in cases {
        assert_eq!(told(text), *expect, "{name}");
    }
    let html = told("<!DOCTYPE html>\n<html>\n<head><title>502: Bad</title></head>\n");
    assert!(html.len() == 1 && html[0].contains('!'), "{html:?}");
}

#[test]
fn too_many_are_a_fault_of_the_whole() {
    let list = |count: usize| format!("{{apiVersion: v1, kind: List, items: [{}]}}", "1,".repeat(count));
    assert_eq!(told(&list(5_000)).len(), 5_000);
    assert_eq!(told(&list(5_001)), ["! holds more than 5000 pods"]);
    assert_eq!(told(&format!("{}\n---\n{}", list(2_500), list(2_501))), ["! holds more than 5000 pods"]);
    assert_eq!(told(&"---\n1\n".repeat(5_000)).len(), 5_000);
    let documents = told(&"---\n1\n".repeat(5_001));
    assert_eq!(documents, ["! not valid YAML: holds more than 5000 documents"]);
}

#[test]
fn findings_have_positions_in_their_own_documents() {
    let odd = |name: &str| pod(name).replace("image: i", "image: i, x: 1");
    let text = format!("{}\n---\n---\nkind: List\napiVersion: v1\nitems:\n- {}\n", odd("a"), odd("b"));
    let items = decode_list(text.as_bytes(), &origin()).unwrap();
    let lines: Vec<_> = items
        .iter()
        .map(|item| item.decoded.as_ref().unwrap().warnings[0].position.map(|position| position.line))
        .collect();
    assert_eq!(lines, [Some(1), Some(7)]);
}

#[test]
fn a_pod_is_the_same_pod_wherever_it_stands() {
    let hash = |text: &str| {
        let item = decode_list(text.as_bytes(), &origin()).unwrap().remove(0);
        let pod = item.decoded.unwrap().pod;
        (pod.hash, pod.uid)
    };
    let a = pod("a");
    let bare = format!("{{metadata: {{name: a}}, {SPEC}}}");
    assert_eq!(hash(&format!("{{apiVersion: v1, kind: List, items: [{a}]}}")), hash(&a));
    assert_eq!(hash(&format!("{{apiVersion: v1, kind: PodList, items: [{bare}]}}")), hash(&a));
    // And when it was kept as JSON.
    let odd = a.replace(
        "image: i",
        "image: i, args: [\"\\x7f\\u0085\"], resources: {limits: {cpu: 0.1234567890123456789}}",
    );
    let kept = serde_json::to_string(&decode_list(odd.as_bytes(), &origin()).unwrap()[0].manifest).unwrap();
    let document =
        Document { number: 1, value: serde_json::from_str(&kept).unwrap(), duplicate_keys: vec![] };
    let pod = decode_document(&document, &origin()).unwrap().pod;
    assert_eq!((pod.hash, pod.uid), hash(&odd));
}

#[test]
fn keys_written_twice_are_told_of_their_own_pod() {
    let text = format!(
        "{{apiVersion: v1, kind: List, items: [{}, {}]}}",
        pod("a"),
        pod("b").replace("image: i", "image: i, image: j")
    );
    let items = decode_list(text.as_bytes(), &origin()).unwrap();
    let warnings: Vec<_> = items.iter().map(|item| item.decoded.as_ref().unwrap().warnings.len()).collect();
    assert_eq!(warnings, [0, 1]);
}

#[test]
fn unknown_and_doubled_fields_of_a_list_are_named_with_its_first_pod() {
    let text = format!(
        "apiVersion: v1\nkind: List\nkind: List\nmetadata: {{resourceVersion: '1', continu: x}}\nitmes: 1\nitems:\n- {}\n- {}\n",
        pod("a"),
        pod("b")
    );
    let want = [
        "kind: written more than once; the last counts",
        "itmes: unknown field of the list, did you mean \"items\"?",
        "metadata.continu: unknown field of the list, did you mean \"continue\"?",
    ];
    let items = decode_list(text.as_bytes(), &origin()).unwrap();
    let warnings = &items[0].decoded.as_ref().unwrap().warnings;
    assert_eq!(warnings.iter().map(ToString::to_string).collect::<Vec<_>>(), want);
    let lines: Vec<_> = warnings.iter().map(|w| w.position.map(|at| at.line)).collect();
    assert_eq!(lines, [Some(3), Some(5), Some(4)]);
    assert_eq!(items[1].decoded.as_ref().unwrap().warnings, []);

    let strict = Origin { strict: true, ..origin() };
    let items = decode_list(text.as_bytes(), &strict).unwrap();
    let [item] = &items[..] else { panic!("{items:?}") };
    let refusal = item.decoded.as_ref().unwrap_err();
    assert_eq!(refusal.problems().map(ToString::to_string).collect::<Vec<_>>(), want);
    assert_eq!(item.name, None, "it may be any pod");
}

#[test]
fn what_is_accepted_can_be_read_again_from_inside_of_other_json() {
    let mut refused = 0;
    for depth in 80..130 {
        let nested = format!("{}1{}", "{a: ".repeat(depth), "}".repeat(depth));
        let text = pod("a").replace("image: i", &format!("image: i, x: {nested}"));
        let item = decode_list(text.as_bytes(), &origin()).map(|mut items| items.remove(0));
        let Ok(ListItem { decoded: Ok(_), manifest, .. }) = item else {
            refused += 1;
            continue;
        };
        let kept = format!("{}{manifest}{}", "[".repeat(20), "]".repeat(20));
        assert!(serde_json::from_str::<Value>(&kept).is_ok(), "{depth}");
    }
    assert!((10..40).contains(&refused), "{refused}");
}
