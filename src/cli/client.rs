//! The client of the agent's socket: one request per connection, HTTP/1.1, blocking.
//!
//! Must not: trust the length of an answer; what is whole is bounded.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Where the agent listens unless it was told otherwise.
const SOCKET: &str = "/run/rkubelet/rkubelet.sock";
/// The most bytes of a whole answer.
const MAX_ANSWER: u64 = 256 << 20;
/// The most bytes of a line of the head.
const MAX_LINE: u64 = 64 << 10;

/// Why the agent did not answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum ClientError {
    /// Nobody listens.
    #[error("the agent does not run, or has no socket at {}: {cause}\n\
        see: systemctl status rkubelet; if it was given another --socket-path: --socket PATH", socket.display())]
    Absent {
        /// Which socket.
        socket: PathBuf,
        /// The reason.
        cause: io::Error,
    },
    /// We are not root.
    #[error("only root may ask the agent: try sudo rkubelet ...")]
    Forbidden,
    /// The connection broke.
    #[error("the agent's answer broke off: {0}")]
    Broken(#[from] io::Error),
    /// It is no answer.
    #[error("what the agent answered is not HTTP")]
    NotHttp,
    /// It is no JSON.
    #[error("what the agent answered is not JSON: {0}")]
    NotJson(#[from] serde_json::Error),
    /// It refused.
    #[error("{} (the agent said {status})", text.trim_end())]
    Refused {
        /// Its status code.
        status: u16,
        /// Its reason.
        text: String,
    },
}

/// Asks the agent.
#[derive(Debug, Clone)]
pub(super) struct AgentClient {
    socket: PathBuf,
}

/// An answer's head, and what follows it.
struct AgentAnswer {
    status: u16,
    chunked: bool,
    length: Option<u64>,
    protocol: String,
    rest: BufReader<UnixStream>,
}

impl AgentClient {
    /// A client of the agent at this socket, or at the one where agents are.
    pub(super) fn new(socket: Option<&str>) -> Self {
        Self { socket: Path::new(socket.unwrap_or(SOCKET)).to_owned() }
    }

    /// A connection to the agent.
    pub(super) fn connect(&self) -> Result<UnixStream, ClientError> {
        UnixStream::connect(&self.socket).map_err(|cause| match cause.kind() {
            ErrorKind::PermissionDenied => ClientError::Forbidden,
            _ => ClientError::Absent { socket: self.socket.clone(), cause },
        })
    }

    /// The JSON at a path.
    pub(super) fn get(&self, path: &str) -> Result<Value, ClientError> {
        let mut body = Vec::new();
        self.stream("GET", path)?.take(MAX_ANSWER).read_to_end(&mut body)?;
        Ok(serde_json::from_slice(&body)?)
    }

    /// The body of a good answer, as it comes.
    pub(super) fn stream(&self, method: &str, path: &str) -> Result<Box<dyn Read>, ClientError> {
        let answered = self.request(method, path, "Connection: close\r\n")?;
        let status = answered.status;
        let mut body: Box<dyn Read> = match (answered.chunked, answered.length) {
            (true, _) => Box::new(Chunks { inner: answered.rest, left: 0, ended: false }),
            (false, Some(length)) => Box::new(answered.rest.take(length)),
            (false, None) => Box::new(answered.rest),
        };
        match status {
            200..=299 => Ok(body),
            403 => Err(ClientError::Forbidden),
            _ => {
                let mut text = Vec::new();
                body.by_ref().take(MAX_LINE).read_to_end(&mut text)?;
                Err(ClientError::Refused { status, text: String::from_utf8_lossy(&text).into_owned() })
            }
        }
    }

    /// The connection, once the agent has switched it to a WebSocket, and which of these protocols it speaks.
    pub(super) fn upgrade(
        &self,
        path: &str,
        protocols: &str,
    ) -> Result<(BufReader<UnixStream>, String), ClientError> {
        let headers = format!(
            "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: cmt1YmVsZXQtcmt1YmVsZQ==\r\nSec-WebSocket-Protocol: {protocols}\r\n"
        );
        let answered = self.request("GET", path, &headers)?;
        if answered.status == 101 {
            return Ok((answered.rest, answered.protocol));
        }
        let mut text = Vec::new();
        answered.rest.take(answered.length.unwrap_or(0).min(MAX_LINE)).read_to_end(&mut text)?;
        Err(ClientError::Refused {
            status: answered.status,
            text: String::from_utf8_lossy(&text).into_owned(),
        })
    }

    fn request(&self, method: &str, path: &str, headers: &str) -> Result<AgentAnswer, ClientError> {
        let mut stream = self.connect()?;
        let length = if method == "POST" { "Content-Length: 0\r\n" } else { "" };
        let request = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{headers}{length}\r\n");
        // Whoever is refused before the request was read is told so all the same.
        let sent = stream.write_all(request.as_bytes());
        let mut rest = BufReader::new(stream);
        let status = head_line(&mut rest)?;
        if status.is_empty() {
            sent?;
        }
        let status: Option<u16> = status.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status = status.ok_or(ClientError::NotHttp)?;
        let mut answered =
            AgentAnswer { status, chunked: false, length: None, protocol: String::new(), rest };
        loop {
            let line = head_line(&mut answered.rest)?;
            let Some((name, value)) = line.split_once(':') else { return Ok(answered) };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => answered.length = value.trim().parse().ok(),
                "transfer-encoding" => answered.chunked = value.trim().eq_ignore_ascii_case("chunked"),
                "sec-websocket-protocol" => answered.protocol = value.trim().to_owned(),
                _ => {}
            }
        }
    }
}

fn head_line(stream: &mut impl BufRead) -> io::Result<String> {
    let mut line = Vec::new();
    stream.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)?;
    Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
}

/// A body in chunks.
struct Chunks<R> {
    inner: R,
    left: u64,
    ended: bool,
}

impl<R: BufRead> Read for Chunks<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.left == 0 && !self.ended {
            let line = head_line(&mut self.inner)?;
            if line.is_empty() {
                // The end of the chunk before; at the end of the stream there is no next one.
                if self.inner.fill_buf()?.is_empty() {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
                continue;
            }
            let size = line.split(';').next().unwrap_or_default();
            self.left = u64::from_str_radix(size.trim(), 16).map_err(|_| ErrorKind::InvalidData)?;
            self.ended = self.left == 0;
        }
        if self.ended {
            return Ok(0);
        }
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let count = self.inner.read(&mut buffer[..most])?;
        if count == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.left -= count as u64;
        Ok(count)
    }
}

/// A text as a part of a path or query.
pub(super) fn encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::thread::JoinHandle;

    use super::*;

    fn serve(answer: &'static [u8]) -> (tempfile::TempDir, AgentClient, JoinHandle<()>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let thread = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream);
            while !head_line(&mut reader).unwrap().is_empty() {}
            reader.get_mut().write_all(answer).unwrap();
        });
        (dir, AgentClient::new(path.to_str()), thread)
    }

    #[test]
    fn answers_of_every_form_are_read() {
        for (answer, expect) in [
            (&b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n{\"a\":1}trailing"[..], Ok("{\"a\":1}")),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{\"a\r\n4;x\r\n\":1}\r\n0\r\n\r\n", Ok("{\"a\":1}")),
            (b"HTTP/1.0 200 OK\r\n\r\n{\"a\":1}", Ok("{\"a\":1}")),
            (b"HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\nnone\n", Err("none (the agent said 404)")),
            (b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", Err("only root")),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n{\"a\"", Err("broke off")),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno", Err("not JSON")),
            (b"\x00\x01", Err("not HTTP")),
        ] {
            let (_dir, client, thread) = serve(answer);
            let got = client.get("/pods").map(|value| value.to_string()).map_err(|error| error.to_string());
            match expect {
                Ok(expect) => assert_eq!(got.as_deref(), Ok(expect)),
                Err(expect) => assert!(got.as_ref().is_err_and(|got| got.contains(expect)), "{got:?}"),
            }
            thread.join().unwrap();
        }
    }

    #[test]
    fn an_agent_that_is_not_there_is_named_with_the_next_step() {
        let error = AgentClient::new(Some("/nowhere/s")).get("/pods").unwrap_err().to_string();
        assert!(error.contains("/nowhere/s") && error.contains("systemctl status rkubelet"), "{error}");
    }
}
