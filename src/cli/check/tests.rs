//! Command lines, verdicts in words, and what is read.

use super::*;

fn parsed(arguments: &[&str]) -> Result<ParsedArguments, String> {
    parse(arguments.iter().map(OsString::from)).map_err(|error| error.to_string())
}

#[test]
fn command_lines() {
    let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
    let check = |options| Ok(ParsedArguments::Check(options));
    let table = [
        (&["a.yaml"][..], check(CheckOptions { paths: paths(&["a.yaml"]), ..CheckOptions::default() })),
        (
            &["--strict", "-ojson", "-", "--node-name=n", "d", "--strict-manifests", "--url-contents"],
            check(CheckOptions {
                paths: paths(&["-", "d"]),
                source: Source::Http,
                output: CheckFormat::Json,
                warnings: Warnings::Fail,
                kubelet_strict: false,
                refuse_unknown: true,
                node_name: "n".to_owned(),
            }),
        ),
        (
            &["--output", "text", "--", "-o"],
            check(CheckOptions { paths: paths(&["-o"]), ..CheckOptions::default() }),
        ),
        (&["a.yaml", "--help"], Ok(ParsedArguments::Help)),
        (
            &[],
            Err("check: name a manifest, a directory, or - for stdin; see rkubelet check --help".to_owned()),
        ),
        (&["-o", "yaml", "a"], Err("check: -o yaml is not text or json".to_owned())),
        (&["--strickt", "a"], Err("check: invalid option '--strickt'".to_owned())),
        (&["--strict=no", "a"], Err("check: unexpected argument for option '--strict': \"no\"".to_owned())),
        (&["a", "--node-name"], Err("check: missing argument for option '--node-name'".to_owned())),
    ];
    for (arguments, want) in table {
        assert_eq!(parsed(arguments), want, "{arguments:?}");
    }
}

const GOOD: &str = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: NAME\nspec:\n  containers:\n  - name: c\n    \
                    image: i\n    FIELD: 1\n";

fn settings(source: Source) -> CheckSettings<'static> {
    CheckSettings { source, node_name: "n1", strict: false, kubelet_strict: false }
}

#[test]
fn objects_have_verdicts_like_pods() {
    let map = "{apiVersion: v1, kind: ConfigMap, metadata: {name: m}, data: {a: x}}";
    let bad = "{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {../x: hunter2}}";
    let pod = GOOD.replace("NAME", "a").replace("    FIELD: 1\n", "");
    let both = format!("{map}\n---\n{pod}");
    let input = |path: &str, text: &str| (path.to_owned(), Ok(text.as_bytes().to_vec()));
    let inputs = || vec![input("a.yaml", &both), input("b.yaml", map), input("c.yaml", bad)];
    let text = render(&check(inputs(), &settings(Source::File), Timestamp::UNIX_EPOCH));
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[..2], ["a.yaml: accepted: ConfigMap default/m", "a.yaml: accepted: default/a-n1"]);
    assert_eq!(lines[2], "b.yaml: refused: metadata.name: ConfigMap default/m is already defined by a.yaml");
    assert!(lines[3].contains("refused: stringData[../x]:") && !text.contains("hunter2"), "{text}");
    let url = render(&check(inputs(), &settings(Source::Http), Timestamp::UNIX_EPOCH));
    assert!(url.contains("already defined by a.yaml document 1"), "{url}");
    let strict = CheckSettings { kubelet_strict: true, ..settings(Source::File) };
    let strict = check(inputs(), &strict, Timestamp::UNIX_EPOCH);
    assert!(strict.iter().all(|verdict| verdict.outcome.word() == "refused"), "{strict:?}");
}

#[test]
fn verdicts_in_words_and_codes() {
    let pod = |name: &str, field: &str| {
        let text = GOOD.replace("NAME", name);
        Ok(if field.is_empty() { text.replace("    FIELD: 1\n", "") } else { text.replace("FIELD", field) }
            .into_bytes())
    };
    let input = |path: &str, bytes: Result<Vec<u8>, String>| (path.to_owned(), bytes);
    let verdicts = |inputs: Vec<Input>| check(inputs, &settings(Source::File), Timestamp::UNIX_EPOCH);
    let code =
        |verdicts: &[Verdict]| [Warnings::Pass, Warnings::Fail].map(|warnings| exit_code(verdicts, warnings));

    let good = verdicts(vec![input("a.yaml", pod("a", "")), input("b.yaml", pod("b", ""))]);
    assert_eq!(render(&good), "a.yaml: accepted: default/a-n1\nb.yaml: accepted: default/b-n1\n");
    assert_eq!(code(&good), [0, 0]);

    let refused = verdicts(vec![input("a.yaml", pod("A", "imag"))]);
    let lines = render(&refused);
    let lines: Vec<_> = lines.lines().collect();
    assert!(lines[0].starts_with("a.yaml:4:3: refused: metadata.name: "), "{lines:?}");
    assert_eq!(
        lines[1..],
        ["a.yaml:9:5: warning: spec.containers[0].imag: unknown field, did you mean \"image\"?"]
    );
    assert_eq!(code(&refused), [1, 1]);

    let warned = verdicts(vec![input("a.yaml", pod("a", "comand"))]);
    assert_eq!(
        render(&warned),
        "a.yaml: accepted: default/a-n1\n\
         a.yaml:9:5: warning: spec.containers[0].comand: unknown field, did you mean \"command\"?\n"
    );
    assert_eq!(code(&warned), [0, 2]);

    let bad = verdicts(vec![
        input("a.yaml", pod("a", "")),
        input("b.yaml", pod("a", "")),
        input("c.yaml", pod("C", "tty")),
        input("d.yaml", Err("cannot be read: no".to_owned())),
    ]);
    assert_eq!(
        render(&bad),
        "a.yaml: accepted: default/a-n1\n\
         b.yaml: refused: metadata.name: pod default/a-n1 is already defined by a.yaml\n\
         c.yaml:9:5: refused: spec.containers[0].tty: invalid type: integer `1`, expected a boolean\n\
         d.yaml: refused: cannot be read: no\n"
    );
    assert_eq!(code(&bad), [1, 1]);

    let after = |name: &str, other: &str| {
        let annotation = format!("  name: {name}\n  annotations: {{rkubelet.dev/after: {other}}}\n");
        Ok(GOOD.replace("  name: NAME\n", &annotation).replace("    FIELD: 1\n", "").into_bytes())
    };
    let circle = verdicts(vec![input("a.yaml", after("a", "b")), input("b.yaml", after("b", "a"))]);
    assert_eq!(code(&circle), [1, 1]);
    assert!(render(&circle).contains("b.yaml: refused: metadata.annotations[rkubelet.dev/after]: pods wait"));
}

#[test]
fn lists_and_documents_are_the_contents_of_a_url() {
    let pod = |name: &str| GOOD.replace("NAME", name).replace("    FIELD: 1\n", "");
    let text = format!(
        "{}---\n# nothing\n---\napiVersion: v1\nkind: PodList\nitems:\n- metadata: {{name: b}}\n  spec: {{}}\n",
        pod("a")
    );
    let verdicts = |source| {
        let inputs = vec![("x.yaml".to_owned(), Ok(text.clone().into_bytes()))];
        check(inputs, &settings(source), Timestamp::UNIX_EPOCH)
    };
    let url = verdicts(Source::Http);
    assert_eq!(
        render(&url),
        "x.yaml: accepted: default/a-n1\n\
         x.yaml:16:3: refused: spec.containers: must have at least one container\n"
    );
    assert_eq!(url.iter().map(|verdict| verdict.document).collect::<Vec<_>>(), [1, 3]);
    let file =
        "x.yaml:16:3: refused: items[0].spec.containers: document 3: must have at least one container\n";
    assert_eq!(render(&verdicts(Source::File)), file);
}

#[test]
fn other_files_of_a_directory_are_named() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["a.manifest", "a.manifest.minisig", "b.txt", ".c.txt"] {
        fs::write(directory.path().join(name), "").unwrap();
    }
    fs::create_dir(directory.path().join("sub")).unwrap();
    let verdicts = skipped(&[directory.path().to_owned(), directory.path().to_owned()], Source::File);
    let text = render(&verdicts).replace(&format!("{}/", directory.path().display()), "");
    assert_eq!(
        text,
        "b.txt: skipped: its name does not end in .yaml, .yml, .json or .manifest\n\
         sub: skipped: is a directory: manifests in it are not read\n"
    );
    assert_eq!([Warnings::Pass, Warnings::Fail].map(|warnings| exit_code(&verdicts, warnings)), [0, 0]);
}
