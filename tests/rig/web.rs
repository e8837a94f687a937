//! Web servers inside the rig's network: Debian's nginx, and one of our own for faulty and hostile answers.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::Rig;
use super::machine::Machine;

/// How a server of our own answers: it gets the request's head, and writes what it likes.
pub(crate) type Answer = Box<dyn Fn(&str, &mut TcpStream) -> std::io::Result<()> + Send + Sync>;

/// A server of our own, on a thread that lives in the rig's network. Ends when dropped.
pub(crate) struct Server {
    address: SocketAddr,
    answer: Arc<Mutex<Arc<Answer>>>,
    requests: Arc<Mutex<Vec<String>>>,
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens on this address of the rig.
    pub(crate) fn start(rig: &Rig, address: &str) -> Self {
        let pid = rig.machine().first_pid();
        let address: SocketAddr = address.parse().expect("an address with a port");
        let answer: Arc<Mutex<Arc<Answer>>> = Arc::new(Mutex::new(Arc::new(Box::new(|_, _| Ok(())))));
        let (requests, end) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (ready, listens) = mpsc::channel();
        let shared = (answer.clone(), requests.clone(), end.clone());
        let thread = std::thread::spawn(move || {
            let (answer, requests, end) = shared;
            let network =
                File::open(format!("/proc/{pid}/ns/net")).expect("open the rig's network namespace");
            move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))
                .expect("enter the rig's network namespace");
            let listener = TcpListener::bind(address).expect("listen inside the rig");
            // In there, so that it can be woken up to end.
            ready.send(listener.local_addr()).expect("the test waits for the server");
            listener.set_nonblocking(true).expect("a listener that does not block");
            while !end.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((stream, _)) => {
                        let (answer, requests) = (answer.clone(), requests.clone());
                        std::thread::spawn(move || serve(stream, &answer, &requests));
                    }
                    #[allow(
                        clippy::disallowed_methods,
                        reason = "a test's thread may sleep between two looks"
                    )]
                    Err(_) => std::thread::sleep(Duration::from_millis(5)),
                }
            }
        });
        listens.recv().expect("the server starts").expect("the server has an address");
        Self { address, answer, requests, end, thread: Some(thread) }
    }

    /// Sets how it answers.
    pub(crate) fn answer(
        &self,
        answer: impl Fn(&str, &mut TcpStream) -> std::io::Result<()> + Send + Sync + 'static,
    ) {
        *self.answer.lock().expect("the answer") = Arc::new(Box::new(answer));
    }

    /// From now on it answers with this body, status 200 and its length.
    pub(crate) fn serve(&self, body: impl Into<Vec<u8>>) {
        let body = body.into();
        self.answer(move |_, stream| reply(stream, "200 OK", "", &body));
    }

    /// The URL of a path.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The heads of the requests so far.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("the requests").clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(mut stream: TcpStream, answer: &Mutex<Arc<Answer>>, requests: &Mutex<Vec<String>>) {
    let _ = stream.set_nonblocking(false);
    let _ = stream.set_read_timeout(Some(Duration::from_secs(60)));
    let Ok(clone) = stream.try_clone() else { return };
    let mut head = String::new();
    for line in BufReader::new(clone).lines() {
        let Ok(line) = line else { return };
        if line.is_empty() {
            break;
        }
        head += &line;
        head += "\n";
    }
    requests.lock().expect("the requests").push(head.clone());
    let answer = answer.lock().expect("the answer").clone();
    // Whoever asked may have gone.
    let _ = answer(&head, &mut stream);
}

/// A well-formed reply; `headers` are whole lines.
pub(crate) fn reply(stream: &mut TcpStream, status: &str, headers: &str, body: &[u8]) -> std::io::Result<()> {
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {}\r\n{headers}\r\n", body.len())?;
    stream.write_all(body)
}

/// Debian's nginx inside the rig. Ends when dropped.
pub(crate) struct Nginx {
    child: Child,
    dir: PathBuf,
}

impl Nginx {
    /// Serves the directory [`Nginx::root`], with these lines in its `server` block.
    pub(crate) fn start(rig: &Rig, server: &str) -> Self {
        let dir = rig.dir().join("nginx");
        fs::create_dir_all(dir.join("root")).expect("create the directory of nginx");
        let config = CONFIG.replace("{dir}", &dir.display().to_string()).replace("{server}", server);
        fs::write(dir.join("nginx.conf"), config).expect("write the configuration of nginx");
        // One that ran here before may have left its own.
        let _ = fs::remove_file(dir.join("access.log"));
        let mut command = rig.command("nginx");
        command.arg("-c").arg(dir.join("nginx.conf")).arg("-e").arg(dir.join("error.log"));
        let log = File::create(dir.join("output")).expect("create the log of nginx");
        let child = command.stderr(log).spawn().expect("run nginx");
        rig.wait("nginx to listen", || dir.join("pid").exists());
        Self { child, dir }
    }

    /// The directory that it serves.
    pub(crate) fn root(&self) -> PathBuf {
        self.dir.join("root")
    }

    /// Puts a file there, whole or not at all.
    pub(crate) fn put(&self, name: &str, text: &str) {
        let whole = self.dir.join(format!("{name}.new"));
        fs::write(&whole, text).expect("write a file for nginx");
        fs::rename(&whole, self.root().join(name)).expect("move it into place");
    }

    /// The lines of its log: method, path, status, and the bytes of the body.
    pub(crate) fn log(&self) -> Vec<String> {
        let text = fs::read_to_string(self.dir.join("access.log")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        if let Some(pid) = Machine::pid_behind(&self.child) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = self.child.wait();
        let _ = fs::remove_file(self.dir.join("pid"));
    }
}

const CONFIG: &str = "
daemon off;
user root;
worker_processes 1;
pid {dir}/pid;
error_log {dir}/error.log;
events {}
http {
    log_format plain '$request_method $uri $status $body_bytes_sent';
    access_log {dir}/access.log plain;
    client_body_temp_path {dir}/body;
    proxy_temp_path {dir}/proxy;
    fastcgi_temp_path {dir}/fastcgi;
    uwsgi_temp_path {dir}/uwsgi;
    scgi_temp_path {dir}/scgi;
    server {
        root {dir}/root;
        {server}
    }
}
";
