//! A registry of the rig's own: Debian's docker-registry on loopback, with a password or without, and a gate that can
//! be put before it.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use rustix::process::{Signal, kill_process};

use super::machine::{Machine, inside_network};
use super::wait::wait_until;
use super::{BUSYBOX, Rig, containerd, needs};

/// Where the registry listens inside the rig's network; containerd speaks plain HTTP to loopback.
pub(crate) const REGISTRY: &str = "127.0.0.1:5000";
/// Where the gate listens.
pub(crate) const GATED: &str = "127.0.0.1:5001";
/// Who may pull from a registry with a password, and the password.
pub(crate) const USER: &str = "edgar";
/// The password: a word that is nowhere else, so that it can be looked for where it must not be.
pub(crate) const PASSWORD: &str = "hunter2-of-the-tests";

/// A running registry; killed when dropped. What was pushed stays in the rig's directory.
pub(crate) struct Registry<'rig> {
    rig: &'rig Rig,
    child: Child,
    login: Option<String>,
}

/// Whether a registry asks who one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Everybody may pull.
    Open,
    /// [`USER`] may, with [`PASSWORD`].
    Password,
}

impl<'rig> Registry<'rig> {
    /// Starts it, and waits until it answers.
    pub(crate) fn start(rig: &'rig Rig, access: Access) -> Self {
        needs::check_registry();
        let dir = rig.dir().join("registry");
        fs::create_dir_all(&dir).expect("create the registry's directory");
        let mut config = format!(
            "version: 0.1\nstorage: {{filesystem: {{rootdirectory: {}}}}}\nhttp: {{addr: '{REGISTRY}'}}\n",
            dir.display()
        );
        if access == Access::Password {
            let htpasswd = dir.join("htpasswd");
            let made =
                Command::new("htpasswd").args(["-Bbn", USER, PASSWORD]).output().expect("run htpasswd");
            assert!(made.status.success(), "{made:?}");
            fs::write(&htpasswd, made.stdout).expect("write the registry's passwords");
            config += &format!("auth: {{htpasswd: {{realm: rig, path: {}}}}}\n", htpasswd.display());
        }
        fs::write(dir.join("config.yml"), config).expect("write the registry's configuration");
        let log = File::options().create(true).append(true).open(dir.join("log")).expect("open its log");
        let mut command = rig.command("docker-registry");
        command.arg("serve").arg(dir.join("config.yml"));
        command.stdout(log.try_clone().expect("duplicate a file handle")).stderr(log);
        let child = command.spawn().expect("run docker-registry");
        let login = (access == Access::Password).then(|| format!("{USER}:{PASSWORD}"));
        let registry = Self { rig, child, login };
        rig.wait("the registry to answer", || rig.http_get(&format!("http://{REGISTRY}/v2/")).is_some());
        registry
    }

    /// Puts busybox into it under a name, `app:1`, and returns the name to pull it by.
    pub(crate) fn push(&self, name: &str) -> String {
        let image = format!("{REGISTRY}/{name}");
        let mut args = vec!["images", "push", "--plain-http"];
        if let Some(login) = &self.login {
            args.extend(["--user", login]);
        }
        args.extend([image.as_str(), BUSYBOX]);
        self.rig.ctr(&args);
        image
    }
}

impl Drop for Registry<'_> {
    fn drop(&mut self) {
        if let Some(pid) = Machine::pid_behind(&self.child) {
            let _ = kill_process(pid, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

impl Rig {
    /// Runs containerd's own client on the images of CRI, and returns what it printed.
    pub(crate) fn ctr(&self, args: &[&str]) -> String {
        let socket = containerd::socket(self.dir()).display().to_string();
        let words: Vec<&str> = ["--address", &socket, "-n", "k8s.io"].iter().chain(args).copied().collect();
        self.output("ctr", &words)
    }

    /// Gives busybox one more name, as an import by hand does.
    pub(crate) fn import_as(&self, image: &str) {
        self.ctr(&["images", "tag", BUSYBOX, image]);
    }

    /// The digest of busybox.
    pub(crate) fn busybox_digest(&self) -> String {
        let listed = self.ctr(&["images", "ls", &format!("name=={BUSYBOX}")]);
        let digest = listed.split_whitespace().find(|word| word.starts_with("sha256:"));
        digest.unwrap_or_else(|| panic!("no digest: {listed}")).to_owned()
    }
}

/// A gate at [`GATED`]: it takes connections for the registry, notes what they ask for, and holds them until it is
/// opened. It adds slowness and nothing else.
pub(crate) struct Gate(Arc<Shared>);

#[derive(Default)]
struct Shared {
    open: Mutex<bool>,
    opened: Condvar,
    asked: Mutex<BTreeSet<String>>,
}

impl Gate {
    /// A closed gate. Its threads end with the test process.
    pub(crate) fn closed(rig: &Rig) -> Self {
        let shared = Arc::new(Shared::default());
        let listener = inside_network(rig.machine().first_pid(), || TcpListener::bind(GATED))
            .join()
            .expect("the thread of the gate")
            .expect("bind the gate");
        let (seen, pid) = (shared.clone(), rig.machine().first_pid());
        // New connections are made where their thread is.
        inside_network(pid, move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let seen = seen.clone();
                thread::spawn(move || seen.pass(stream));
            }
        });
        Self(shared)
    }

    /// The repositories that were asked for so far.
    pub(crate) fn asked(&self) -> BTreeSet<String> {
        self.0.asked.lock().expect("what was asked").clone()
    }

    /// Whether so many repositories are asked for within a time.
    pub(crate) fn is_asked_for(&self, repositories: usize, patience: Duration) -> bool {
        wait_until(patience, || self.asked().len() >= repositories)
    }

    /// Lets everything through from now on.
    pub(crate) fn open(&self) {
        *self.0.open.lock().expect("the gate") = true;
        self.0.opened.notify_all();
    }
}

impl Shared {
    /// Passes one connection on, both ways; its first request is noted. A peer that goes away ends it.
    fn pass(&self, mut client: TcpStream) -> Option<()> {
        let mut head = [0; 4096];
        let count = client.read(&mut head).ok()?;
        let text = String::from_utf8_lossy(&head[..count]).into_owned();
        // HEAD /v2/NAME/manifests/1 HTTP/1.1
        let repository = text.split('/').nth(2).unwrap_or_default();
        self.asked.lock().expect("what was asked").insert(repository.to_owned());
        let open = self.open.lock().expect("the gate");
        drop(self.opened.wait_while(open, |open| !*open).expect("the gate"));
        let mut registry = TcpStream::connect(REGISTRY).ok()?;
        registry.write_all(&head[..count]).ok()?;
        let (mut from, mut to) = (client.try_clone().ok()?, registry.try_clone().ok()?);
        thread::spawn(move || std::io::copy(&mut from, &mut to));
        std::io::copy(&mut registry, &mut client).ok().map(drop)
    }
}
