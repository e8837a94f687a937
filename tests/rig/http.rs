//! A GET from inside the rig's network, by a thread that moves there.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::machine::inside_network;

/// What a server answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reply {
    /// The status code.
    pub(crate) status: u16,
    /// The headers, as they came.
    pub(crate) headers: String,
    /// The body.
    pub(crate) body: String,
}

/// GET `url` in the network namespace of a process; `None` if nobody answers.
pub(crate) fn get(pid: u32, url: &str) -> Option<Reply> {
    let rest = url.strip_prefix("http://").expect("an http URL");
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (host, path) = (host.to_owned(), path.to_owned());
    let thread = inside_network(pid, move || exchange(&host, &path));
    thread.join().expect("the thread of an HTTP request").ok()
}

fn exchange(host: &str, path: &str) -> std::io::Result<Reply> {
    let address = host.parse().expect("a host of the form address:port");
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(2))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    // HTTP/1.0: the body ends where the connection does.
    write!(stream, "GET /{path} HTTP/1.0\r\nHost: {host}\r\n\r\n")?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let malformed = || std::io::Error::other(format!("not an HTTP reply: {text}"));
    let (headers, body) = text.split_once("\r\n\r\n").ok_or_else(malformed)?;
    let status =
        headers.split_whitespace().nth(1).and_then(|code| code.parse().ok()).ok_or_else(malformed)?;
    Ok(Reply { status, headers: headers.to_owned(), body: body.to_owned() })
}
