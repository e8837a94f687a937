//! Files with ConfigMaps and Secrets.

use super::*;
use crate::pod::decode::Origin;
use crate::pod::decode::file::decode_file;
use crate::source::dir::files::saved::Unsaved;

/// A file of pods (`pod a`), ConfigMaps (`map x 1`) and immutable ones (`fixed x 1`), with commas between them.
fn file(text: &str) -> FileReading {
    let document = |part: &str| match part.split_whitespace().collect::<Vec<_>>().as_slice() {
        ["pod", name] => {
            format!(
                "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{containers: [{{name: c, image: i}}]}}}}"
            )
        }
        [kind, name, value] => {
            let fixed = *kind == "fixed";
            format!(
                "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}, data: {{v: \"{value}\"}}, immutable: {fixed}}}"
            )
        }
        _ => "bad".to_owned(),
    };
    let text = text.split(',').map(document).collect::<Vec<_>>().join("\n---\n");
    let origin = Origin {
        node_name: "n",
        source: Source::File,
        path: "/m/f.yaml",
        seen: jiff::Timestamp::UNIX_EPOCH,
        strict: false,
        kubelet_strict: false,
    };
    let checked = decode_file(text.as_bytes(), &origin)
        .map(|decoded| Box::new(ValidManifest { decoded, signed: None }));
    let contents =
        FileContents { bytes: text.into_bytes(), signature: None, owner: 0, mode: 0o644, since: (1, 0) };
    FileReading::Read(contents, checked)
}

fn read(files: &[(&str, &str)]) -> DirectoryReading {
    let files = files.iter().map(|(path, text)| (PathBuf::from(path), file(text))).collect();
    DirectoryReading::Files(FoundFiles { files, ..FoundFiles::default() })
}

/// What the snapshot holds: pods, and objects with their values.
fn held(files: &Files) -> String {
    let snapshot = files.latest();
    let pods = snapshot.pods.iter().map(|pod| pod.name.name.clone());
    let objects = snapshot
        .objects
        .iter()
        .map(|object| format!("{}={}", object.key.name, String::from_utf8_lossy(object.data["v"].bytes())));
    pods.chain(objects).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_file_is_taken_as_a_whole_and_each_name_once() {
    let mut files = Files::default();
    let rows: Vec<(&str, Vec<(&str, &str)>, &str, &str)> = vec![
        (
            "a pod with its map, and a map",
            vec![("a", "pod p, map x 1"), ("b", "map w 1")],
            "p-n x=1 w=1",
            "accepted accepted accepted",
        ),
        (
            "a change",
            vec![("a", "pod p, map x 2"), ("b", "map w 1")],
            "p-n x=2 w=1",
            "accepted accepted accepted",
        ),
        ("half of it is bad", vec![("a", "pod p, !"), ("b", "map w 1")], "p-n x=2 w=1", "refused accepted"),
        (
            "what b has a does not get",
            vec![("a", "pod p, map x 2, map w 9"), ("b", "map w 2")],
            "p-n x=2 w=2",
            "refused accepted",
        ),
        (
            "b gives it up",
            vec![("a", "pod p, map x 2, map w 9"), ("b", "map z 1")],
            "p-n x=2 w=9 z=1",
            "accepted accepted accepted accepted",
        ),
        ("b has none of it any more", vec![("a", "pod p")], "p-n", "accepted"),
    ];
    for (name, reading, want, words) in rows {
        files.apply(read(&reading));
        assert_eq!(held(&files), want, "{name}");
        let snapshot = files.latest();
        let said: Vec<_> = snapshot.verdicts.iter().map(|verdict| verdict.outcome.word()).collect();
        assert_eq!(said.join(" "), words, "{name}");
    }
}

#[test]
fn what_is_immutable_does_not_change_before_it_is_gone() {
    let mut files = Files::default();
    files.apply(read(&[("a", "fixed x 1")]));
    for (text, want) in [("fixed x 2", "x=1"), ("map x 1", "x=1"), ("fixed x 1, map w 1", "x=1 w=1")] {
        files.apply(read(&[("a", text)]));
        assert_eq!(held(&files), want, "{text}");
    }
    files.apply(read(&[]));
    files.apply(read(&[("a", "fixed x 2")]));
    assert_eq!(held(&files), "x=2");
}

#[test]
fn objects_of_the_last_agent_are_there_at_once() {
    let (mut files, mut disk) = (Files::default(), Disk::default());
    files.apply(read(&[("a", "map x 1"), ("b", "pod p")]));
    let Unsaved { write, .. } = files.unsaved();
    assert_eq!(write.len(), 2);
    assert!(!format!("{write:?}").contains("ConfigMap"), "the text is not shown: {write:?}");
    disk.save(&mut files);
    let records = write.into_iter().map(|record| {
        let FileReading::Read(_, checked) =
            file(if record.path == Path::new("a") { "map x 1" } else { "pod p" })
        else {
            unreachable!()
        };
        (record, *checked.unwrap())
    });
    let mut next = Files::restored(records.collect(), BTreeMap::new());
    assert_eq!(held(&next), "p-n x=1");
    let mut away = FoundFiles::default();
    away.missing = ["a", "b"].map(PathBuf::from).into();
    next.apply(DirectoryReading::Files(away));
    assert_eq!(held(&next), "x=1", "no pod is started for a file that is away, but others find its objects");
    next.apply(read(&[]));
    assert_eq!(held(&next), "");
}
