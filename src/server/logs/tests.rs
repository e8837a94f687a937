//! Options as kubelet takes and refuses them, and reading from real files.

use std::fs;
use std::io::Write as _;

use futures_lite::StreamExt as _;
use futures_lite::future::block_on;

use super::*;
use crate::server::request::tests::request;
use crate::server::request::{Method, Port};

fn options(query: &str) -> Result<LogOptions, u16> {
    let request = request(Port::Socket, Method::Get, &format!("/containerLogs/ns/pod/c?{query}"));
    LogOptions::parse(&request).map_err(|refused| refused.status)
}

#[test]
fn options_that_are_understood() {
    let default = LogOptions::default();
    let with = |selection: Selection| Ok(LogOptions { selection, ..LogOptions::default() });
    for (query, expect) in [
        ("", Ok(default.clone())),
        ("follow=true&previous=1", Ok(LogOptions { follow: true, previous: true, ..default.clone() })),
        ("follow=false&previous=0&timestamps=", Ok(default.clone())),
        ("follow=1&tailLines=3", Ok(LogOptions { follow: true, tail: Some(3), ..default.clone() })),
        (
            "tailLines=3",
            Ok(LogOptions {
                tail: Some(3),
                selection: Selection { limit_entries: Some(3), ..Selection::default() },
                ..default.clone()
            }),
        ),
        ("tail=all&tailLines=3", Ok(default.clone())),
        ("sinceSeconds=60", Ok(LogOptions { since_seconds: Some(60), ..default.clone() })),
        ("limitBytes=10", with(Selection { limit_bytes: Some(10), ..Selection::default() })),
        ("stream=Stderr", with(Selection { stream: Some("stderr"), ..Selection::default() })),
        ("stream=All", Ok(default.clone())),
        ("timestamps=true", with(Selection { timestamps: true, ..Selection::default() })),
        (
            "sinceTime=2026-11-18T10:00:00%2B01:00",
            with(Selection { since: "2026-11-18T09:00:00Z".parse().ok(), ..Selection::default() }),
        ),
        ("tailLines=x", Err(400)),
        ("sinceTime=yesterday", Err(400)),
        ("tailLines=-1", Err(422)),
        ("limitBytes=0", Err(422)),
        ("sinceSeconds=0", Err(422)),
        ("sinceSeconds=1&sinceTime=2026-11-18T10:00:00Z", Err(422)),
        ("stream=stdout", Err(422)),
        ("stream=Stdout&tailLines=1", Err(422)),
    ] {
        assert_eq!(options(query), expect, "{query}");
    }
}

fn entry(text: &str) -> String {
    format!("2026-11-18T10:00:00Z stdout F {text}\n")
}

fn read_all(path: &Path, query: &str) -> String {
    let root = path.parent().unwrap().to_owned();
    let reader = LogReader::open(root, path.to_owned(), options(query).unwrap()).unwrap();
    let chunks = stream::unfold((Some(reader), None), next_chunk);
    let bytes: Vec<u8> = block_on(Box::pin(chunks).map(|chunk| chunk.to_vec()).collect::<Vec<_>>()).concat();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn the_end_of_a_long_log_is_found() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("0.log");
    let text: String = (0..20_000).map(|number| entry(&number.to_string())).collect();
    fs::write(&path, text).unwrap();
    assert_eq!(read_all(&path, "tailLines=2"), "19998\n19999\n");
    assert_eq!(read_all(&path, "tailLines=0"), "");
    assert_eq!(read_all(&path, "limitBytes=7"), "0\n1\n2\n3");
    assert_eq!(read_all(&path, "").lines().count(), 20_000);
}

#[test]
fn a_rotation_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("0.log");
    let mut old = File::create(&path).unwrap();
    old.write_all(entry("one").as_bytes()).unwrap();
    let root = directory.path().to_owned();
    let mut reader = LogReader::open(root, path.clone(), options("follow=1").unwrap()).unwrap();
    let mut read = || match reader.read(true).unwrap() {
        LogRead::Some(bytes) => String::from_utf8(bytes).unwrap(),
        LogRead::End => "end".to_owned(),
        LogRead::Rotated => "rotated".to_owned(),
    };
    assert_eq!((read(), read()), ("one\n".to_owned(), "end".to_owned()));
    fs::rename(&path, directory.path().join("0.log.1")).unwrap();
    assert_eq!(read(), "end");
    old.write_all(entry("two").as_bytes()).unwrap();
    fs::write(&path, entry("three")).unwrap();
    assert_eq!(read(), "two\n");
    assert_eq!(read(), "rotated");
    assert_eq!((read(), read()), ("three\n".to_owned(), "end".to_owned()));
}

#[test]
fn a_link_in_the_place_of_a_log_is_not_followed() {
    let directory = tempfile::tempdir().unwrap();
    let (secret, log) = (directory.path().join("secret"), directory.path().join("0.log"));
    fs::write(&secret, entry("secret")).unwrap();
    std::os::unix::fs::symlink(&secret, &log).unwrap();
    assert!(LogReader::open(directory.path().to_owned(), log, LogOptions::default()).is_err());
}
