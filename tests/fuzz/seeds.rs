//! Writes the seeds of the fuzz targets: the corpus, and what is known to be hard on parsers.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a tool of the tests, which fails by panicking")]

#[path = "../corpus/manifests.rs"]
mod manifests;

use std::fs;
use std::path::{Path, PathBuf};

const DEEP: usize = 100_000;

fn main() {
    let root = PathBuf::from(std::env::args_os().nth(1).expect("usage: fuzz_seeds DIRECTORY"));
    let corpus = manifests::manifests();
    let of_kind = |json: bool| {
        let some = corpus.iter().filter(move |(path, _)| path.ends_with(".json") == json);
        some.map(|(path, bytes)| (path.replace('/', "-"), bytes.clone()))
    };
    for target in ["yaml", "manifest", "list"] {
        write(&root.join(target), of_kind(false).chain(hard_yaml()).chain(lists()));
    }
    write(&root.join("json"), of_kind(true).chain(hard_json()));
    write(&root.join("minisig"), signatures());
}

fn write(directory: &Path, seeds: impl Iterator<Item = (String, Vec<u8>)>) {
    fs::create_dir_all(directory).expect("create the directory of the seeds");
    for (name, bytes) in seeds {
        fs::write(directory.join(name), bytes).expect("write a seed");
    }
}

fn hard_yaml() -> impl Iterator<Item = (String, Vec<u8>)> {
    let mut laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..10 {
        let items = vec![format!("*a{}", level - 1); 10].join(", ");
        laughs += &format!("a{level}: &a{level} [{items}]\n");
    }
    let merges = format!("a: &a {{b: 1, c: 2}}\n{}", "d: {<<: [*a, *a, *a]}\n".repeat(5_000));
    let doubled = "a: 1\n".repeat(10_000);
    named([
        ("laughs", laughs.into_bytes()),
        (
            "large-alias",
            format!("a: &a {}\nb:\n{}", "x".repeat(1 << 18), "- *a\n".repeat(10_000)).into_bytes(),
        ),
        ("itself", b"a: &a [*a]".to_vec()),
        ("merges", merges.into_bytes()),
        ("doubled-keys", doubled.into_bytes()),
        ("deep-flow", "[".repeat(DEEP).into_bytes()),
        ("deep-flow-maps", "{a: ".repeat(DEEP).into_bytes()),
        ("deep-block", "- ".repeat(DEEP).into_bytes()),
        ("deep-keys", "? ".repeat(DEEP).into_bytes()),
        ("many-documents", "---\n".repeat(10_000).into_bytes()),
        ("huge-number", format!("a: {}\nb: 1e{}\n", "9".repeat(10_000), "9".repeat(1_000)).into_bytes()),
        ("long-line", format!("args: [{}x]", "x,".repeat(100_000)).into_bytes()),
        ("many-nodes", format!("args: [{}1]", "1,".repeat(5 << 20)).into_bytes()),
        ("most-nodes", format!("args: [{}1]", "{a: {}},".repeat(120_000)).into_bytes()),
        ("not-utf-8", b"kind: Pod\napiVersion: v1\n\xff\xfe: \xc3\x28\n".to_vec()),
        ("tags", b"!!binary a: !!map {!!str b: !<tag:yaml.org,2002:int> 1, ? !x c : !!null d}".to_vec()),
    ])
}

fn lists() -> impl Iterator<Item = (String, Vec<u8>)> {
    let pod =
        "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c, image: i, x: 1}]}}";
    named([
        (
            "pod-list",
            format!("apiVersion: v1\nkind: PodList\nitems:\n{}", format!("- {pod}\n").repeat(100))
                .into_bytes(),
        ),
        ("list", format!("apiVersion: v1\nkind: List\nitems: [{pod}, 1, {{}}]\n").into_bytes()),
        ("empty-list", b"apiVersion: v1\nkind: PodList\nitems: []\n".to_vec()),
        ("documents", format!("---\n{pod}\n").repeat(100).into_bytes()),
    ])
}

/// A key, a signature and the text that is signed, with a NUL between them.
fn signatures() -> impl Iterator<Item = (String, Vec<u8>)> {
    let key = "untrusted comment: minisign public key E7620F1842B4E81F\n\
               RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3\n";
    let signature = "untrusted comment: signature from minisign secret key\n\
                     RUQf6LRCGA9i559r3g7V1qNyJDApGip8MfqcadIgT9CuhV3EMhHoN1mGTkUidF/z7SrlQgXdy8ofjb7bNJJylDOocrCo8KLzZwo=\n\
                     trusted comment: timestamp:1556193335\tfile:test\n\
                     y/rUw2y8/hOUYjZU71eHp/Wo1KZ40fGy2VJEDl34XMJM+TX48Ss/17u3IvIfbVR1FkZZSNCisQbuQY+bHwhEBg==\n";
    named([
        ("signed", format!("{key}\0{signature}\0test").into_bytes()),
        (
            "bare-key",
            format!("RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3\0{signature}\0test")
                .into_bytes(),
        ),
        ("serial", format!("{key}\0{}\0test", signature.replace("timestamp:", "serial:")).into_bytes()),
        ("nothing", b"\0\0".to_vec()),
    ])
}

fn hard_json() -> impl Iterator<Item = (String, Vec<u8>)> {
    named([
        ("deep-lists", [b"[".repeat(DEEP), b"]".repeat(DEEP)].concat()),
        ("deep-objects", [b"{\"a\":".repeat(DEEP), b"}".repeat(DEEP)].concat()),
        ("huge-number", format!("{{\"a\":{}}}", "9".repeat(100_000)).into_bytes()),
        ("not-utf-8", b"{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"\xff\"}}".to_vec()),
        ("surrogates", b"{\"a\":\"\\ud800\\udc00\\ud800\"}".to_vec()),
        ("many-keys", format!("{{{}\"z\":1}}", "\"a\":1,".repeat(10_000)).into_bytes()),
    ])
}

fn named<const N: usize>(seeds: [(&str, Vec<u8>); N]) -> impl Iterator<Item = (String, Vec<u8>)> {
    seeds.into_iter().map(|(name, bytes)| (format!("hard-{name}"), bytes)).collect::<Vec<_>>().into_iter()
}
