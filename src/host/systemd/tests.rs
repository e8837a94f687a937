//! Messages to and from systemd, byte by byte, and over a socket.

use std::os::unix::net::UnixListener;
use std::thread;

use super::*;

#[test]
fn a_call_as_bytes() {
    let mut body = BusBody::default();
    body.string("a.slice").bool(true).properties(&[
        Property::U64("TasksMax", 5),
        Property::Bool("B", true),
        Property::Units("Wants", vec!["x.slice".into()]),
        Property::Text("D", "t".into()),
    ]);
    let bytes = method_call("SetUnitProperties", 7, "sba(sv)", body);
    assert_eq!(&bytes[..4], b"l\x01\x00\x01");
    assert_eq!(&bytes[8..12], &7u32.to_le_bytes());
    let start: [u8; 16] = bytes[..16].try_into().unwrap();
    let (header, length) = sizes(&start).unwrap();
    assert_eq!(bytes.len(), 16 + header + length);
    let found = &bytes[16 + header..];
    assert_eq!(&found[..16], b"\x07\x00\x00\x00a.slice\x00\x01\x00\x00\x00");
    let array = u32::from_le_bytes(found[16..20].try_into().unwrap());
    assert_eq!(
        usize::try_from(array).unwrap(),
        found.len() - 24,
        "the array begins at a multiple of 8, after its length"
    );
    assert_eq!(&found[24..40], b"\x08\x00\x00\x00TasksMax\x00\x01t\x00", "name and signature of the first");
    assert_eq!(&found[40..48], &5u64.to_le_bytes());
    assert_eq!(&found[48..64], b"\x01\x00\x00\x00B\x00\x01b\x00\x00\x00\x00\x01\x00\x00\x00");
}

#[test]
fn broken_messages_are_refused() {
    assert_eq!(sizes(b"B\x02\x00\x01\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00"), None, "big endian");
    assert_eq!(sizes(&[0xff; 16]), None);
    let start = *b"l\x02\x00\x01\x00\x00\x00\x00\x01\x00\x00\x00\x08\x00\x00\x00";
    for fields in
        [&[5, 1, b'u', 0, 9, 0, 0][..], &[5, 200, b'u', 0, 9, 0, 0, 0], &[9, 1, b'x', 0, 0, 0, 0, 0]]
    {
        assert_eq!(BusMessage::parse(&start, fields, fields.len()), None, "{fields:?}");
    }
    let answer = BusMessage::parse(&start, &[5, 1, b'u', 0, 9, 0, 0, 0], 8).unwrap();
    assert_eq!((answer.kind, answer.reply_to), (BusMessageKind::Return, Some(9)));
    assert_eq!(job_of(&answer), None);
}

/// A message of systemd: its kind, serial answered, fields of text, body.
fn answer(kind: u8, reply_to: u32, fields: &[(u8, &str, &str)], body: &[u8]) -> Vec<u8> {
    let mut header = vec![5, 1, b'u', 0];
    header.extend(reply_to.to_le_bytes());
    for (number, signature, text) in fields {
        header.resize(header.len().next_multiple_of(8), 0);
        header.extend([*number, 1, signature.as_bytes()[0], 0]);
        if *signature == "g" {
            header.push(u8::try_from(text.len()).unwrap());
        } else {
            header.extend(u32::try_from(text.len()).unwrap().to_le_bytes());
        }
        header.extend(text.as_bytes());
        header.push(0);
    }
    let mut message = vec![b'l', kind, 0, 1];
    message.extend(u32::try_from(body.len()).unwrap().to_le_bytes());
    message.extend(1u32.to_le_bytes());
    message.extend(u32::try_from(header.len()).unwrap().to_le_bytes());
    header.resize(header.len().next_multiple_of(8), 0);
    message.extend(header);
    message.extend(body);
    message
}

fn text(text: &str) -> Vec<u8> {
    let mut bytes = u32::try_from(text.len()).unwrap().to_le_bytes().to_vec();
    bytes.extend(text.as_bytes());
    bytes.push(0);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn removed(job: &str, result: &str) -> Vec<u8> {
    let body = [1u32.to_le_bytes().to_vec(), text(job), text("u.slice"), text(result)].concat();
    answer(4, 99, &[(3, "s", "JobRemoved"), (8, "g", "uoss")], &body)
}

/// What systemd would do with each call, played to the client: faults that a real one rarely has.
#[test]
fn jobs_are_waited_for_and_refusals_named() {
    let job = || answer(2, 1, &[(8, "g", "o")], &text("/job/1"));
    let refusal = |name| answer(3, 1, &[(4, "s", name), (8, "g", "s")], &text("it is there"));
    let rows = [
        ("over before the answer", [removed("/job/1", "done"), job()].concat(), Ok(())),
        (
            "over later, others first",
            [job(), removed("/job/2", "failed"), removed("/job/1", "done")].concat(),
            Ok(()),
        ),
        (
            "failed",
            [job(), removed("/job/1", "failed")].concat(),
            Err("systemd could not complete StartTransientUnit of u.slice: failed"),
        ),
        ("there already", refusal("org.freedesktop.systemd1.UnitExists"), Ok(())),
        (
            "refused",
            refusal("org.freedesktop.DBus.Error.AccessDenied"),
            Err("systemd refuses StartTransientUnit of u.slice: it is there \
                 (org.freedesktop.DBus.Error.AccessDenied)"),
        ),
        ("gone", Vec::new(), Err("systemd does not answer to StartTransientUnit")),
    ];
    let dir = tempfile::tempdir().unwrap();
    for (name, answers, expect) in rows {
        let path = dir.path().join(name.replace(' ', "-"));
        let listener = UnixListener::bind(&path).unwrap();
        let played = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            assert_eq!(read_line(&mut stream).unwrap(), "\0AUTH EXTERNAL 30");
            stream.write_all(b"OK 1234\r\n").unwrap();
            let mut begin = [0; 7];
            stream.read_exact(&mut begin).unwrap();
            assert_eq!(&begin, b"BEGIN\r\n");
            let mut start = [0; 16];
            stream.read_exact(&mut start).unwrap();
            let (header, body) = sizes(&start).unwrap();
            stream.read_exact(&mut vec![0; header + body]).unwrap();
            stream.write_all(&answers).unwrap();
        });
        let mut systemd = Systemd::connect_to(&path).unwrap();
        let result = systemd.start_slice("u.slice", &[Property::Bool("CPUAccounting", true)]);
        assert_eq!(result.map_err(|error| error.to_string()), expect.map_err(str::to_owned), "{name}");
        played.join().unwrap();
    }
}

#[test]
fn a_node_without_systemd_is_told_what_to_do() {
    let cause = Systemd::connect_to(Path::new("/nonexistent/private")).unwrap_err();
    let error = SystemdError::Connect { path: PRIVATE_SOCKET.into(), cause };
    assert!(error.to_string().contains("SystemdCgroup = false"), "{error}");
}
