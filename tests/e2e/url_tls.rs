//! The URL source through Debian's nginx: TLS, client certificates, ETag, gzip.

use std::fs;
use std::path::{Path, PathBuf};

use crate::manifest;
use crate::rig::web::Nginx;
use crate::rig::{Agent, Rig};

const URL: &str = "--manifest-url=https://localhost:8443/pods.yaml";
const FAILED: &str = "cannot take pods from the URL";

/// A certificate authority in a directory of the rig, by the program `openssl`.
pub(crate) struct Authority<'rig> {
    rig: &'rig Rig,
    dir: PathBuf,
}

impl<'rig> Authority<'rig> {
    pub(crate) fn new(rig: &'rig Rig, name: &str) -> Self {
        let authority = Self { rig, dir: rig.dir().join(name) };
        fs::create_dir(&authority.dir).expect("create the directory of an authority");
        authority.openssl(&format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN={name} -keyout ca.key -out ca.pem"
        ));
        authority
    }

    /// Issues a certificate, for `localhost` where it is a server's.
    fn issue(&self, name: &str) {
        self.issue_valid(name, "-days 2");
    }

    fn issue_valid(&self, name: &str, validity: &str) {
        self.issue_for(name, "DNS:localhost,IP:127.0.0.1", validity);
    }

    /// Issues a certificate for these names.
    pub(crate) fn issue_for(&self, name: &str, names: &str, validity: &str) {
        let extensions = format!("subjectAltName={names}\nbasicConstraints=CA:FALSE\n");
        fs::write(self.dir.join("extensions"), extensions).expect("write the extensions");
        self.openssl(&format!(
            "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN={name} -keyout {name}.key.new -out {name}.csr"
        ));
        fs::write(self.dir.join("index.txt"), "").expect("write the index");
        fs::write(self.dir.join("ca.conf"), CA).expect("write the authority's configuration");
        self.openssl(&format!(
            "ca -batch -notext -config ca.conf -cert ca.pem -keyfile ca.key -in {name}.csr -extfile extensions \
             {validity} -out {name}.pem.new"
        ));
        for end in ["key", "pem"] {
            let path = self.file(&format!("{name}.{end}"));
            fs::rename(format!("{}.new", path.display()), path).expect("move a certificate into place");
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub(crate) fn flag(&self, flag: &str, file: &str) -> String {
        format!("--{flag}={}", self.file(file).display())
    }

    fn openssl(&self, arguments: &str) {
        self.rig.output("sh", &["-c", &format!("cd {} && openssl {arguments}", self.dir.display())]);
    }
}

const CA: &str = "[ca]\ndefault_ca=our\n[our]\ndatabase=index.txt\nnew_certs_dir=.\nrand_serial=yes\n\
    default_md=sha256\npolicy=any\n[any]\ncommonName=supplied\n";

/// nginx with TLS, and with more lines in its `server` block.
pub(crate) fn nginx(rig: &Rig, authority: &Authority<'_>, more: &str) -> Nginx {
    let file = |name: &str| authority.file(name).display().to_string();
    Nginx::start(
        rig,
        &format!(
            "listen 8443 ssl; listen [::]:8443 ssl;\nssl_certificate {};\nssl_certificate_key {};\n{more}",
            file("server.pem"),
            file("server.key"),
        ),
    )
}

fn start<'rig>(rig: &'rig Rig, more: &[&str]) -> Agent<'rig> {
    rig.start_agent(&[&[URL, "--http-check-frequency=1s"], more].concat())
}

fn wait_for_complaint(rig: &Rig, agent: &Agent<'_>, words: &str) {
    rig.wait(&format!("a complaint: {words}"), || {
        agent.log_lines_with(FAILED).iter().any(|line| line.contains(words))
    });
}

#[test]
fn contents_that_did_not_change_are_not_sent_again_and_travel_packed() {
    let rig = Rig::new();
    let authority = Authority::new(&rig, "ca");
    authority.issue("server");
    let nginx = nginx(&rig, &authority, "gzip on; gzip_types *; gzip_min_length 1;");
    let long = format!("{}# {}\n", manifest::idle("a"), "comment ".repeat(10_000));
    nginx.put("pods.yaml", &long);
    let agent = start(&rig, &[&authority.flag("manifest-url-ca-file", "ca.pem")]);
    rig.wait_running("a-node1", "main");
    let line = |status: &str| nginx.log().into_iter().find(|line| line.contains(status));
    rig.wait("an answer without contents", || line(" 304 0").is_some());
    let sent: usize = line(" 200 ").and_then(|line| line.rsplit(' ').next()?.parse().ok()).expect("a length");
    assert!(sent < 10_000, "{sent} bytes for {}", long.len());

    // An edit is, and once only.
    nginx.put("pods.yaml", &manifest::idle("b"));
    rig.wait_running("b-node1", "main");
    rig.wait("the other pod to go", || rig.containers_of("a-node1").is_empty());
    assert_eq!(nginx.log().iter().filter(|line| line.contains(" 200 ")).count(), 2, "{:?}", nginx.log());
    assert_eq!(agent.log_lines_with("new contents of the URL").len(), 2);
}

#[test]
fn the_server_is_known_by_its_certificate() {
    let rig = Rig::new();
    let (ours, theirs) = (Authority::new(&rig, "ours"), Authority::new(&rig, "theirs"));
    ours.issue("server");
    theirs.issue("server");
    let first = nginx(&rig, &ours, "");
    first.put("pods.yaml", &manifest::idle("a"));
    let ca = ours.flag("manifest-url-ca-file", "ca.pem");
    let agent = start(&rig, &[&ca]);
    rig.wait_running("a-node1", "main");
    let before = rig.fingerprint();
    drop(first);

    // Somebody else in its place, who would end all pods.
    let second = nginx(&rig, &theirs, "");
    second.put("pods.yaml", "apiVersion: v1\nkind: List\nitems: []\n");
    wait_for_complaint(&rig, &agent, "no TLS with localhost: invalid peer certificate");
    assert_eq!(rig.fingerprint(), before);
    assert_eq!(second.log(), [""; 0], "nothing was asked of it");
    // The operator trusts them now: the file counts as it is.
    fs::copy(theirs.file("ca.pem"), ours.file("ca.pem")).expect("trust another authority");
    rig.wait("the pods to end", || rig.sandboxes().is_empty());
    agent.kill9();

    // The system's roots are those of the environment, or of the distribution.
    let roots = format!("SSL_CERT_FILE={}", theirs.file("ca.pem").display());
    second.put("pods.yaml", &manifest::idle("b"));
    let agent = rig.start_agent_through(&["env", &roots], &[URL]);
    rig.wait_running("b-node1", "main");
    agent.kill9();
    let empty = rig.dir().join("empty");
    fs::write(&empty, "").expect("write an empty file");
    let nobody = [format!("SSL_CERT_FILE={}", empty.display()), "SSL_CERT_DIR=/nowhere".to_owned()];
    let agent = rig.start_agent_through(&["env", &nobody[0], &nobody[1]], &[URL]);
    wait_for_complaint(&rig, &agent, "the system has no root certificates");
}

#[test]
fn a_client_certificate_is_shown_and_read_anew_when_it_changes() {
    let rig = Rig::new();
    let (servers, clients) = (Authority::new(&rig, "servers"), Authority::new(&rig, "clients"));
    servers.issue("server");
    // Nobody knows who signed this one.
    let strangers = Authority::new(&rig, "strangers");
    strangers.issue("client");
    clients.issue("client");
    for end in ["key", "pem"] {
        copy(&strangers.file(&format!("client.{end}")), &servers.file(&format!("client.{end}")));
    }
    let more = format!("ssl_client_certificate {};\nssl_verify_client on;", clients.file("ca.pem").display());
    let nginx = nginx(&rig, &servers, &more);
    nginx.put("pods.yaml", &manifest::idle("a"));
    let flags = [
        servers.flag("manifest-url-ca-file", "ca.pem"),
        servers.flag("manifest-url-client-certificate", "client.pem"),
        servers.flag("manifest-url-client-key", "client.key"),
    ];
    let agent = start(&rig, &flags.each_ref().map(String::as_str));
    wait_for_complaint(&rig, &agent, "status 400");
    assert!(rig.sandboxes().is_empty());
    // Renewed in two steps, between which they do not fit.
    copy(&clients.file("client.pem"), &servers.file("client.pem"));
    wait_for_complaint(&rig, &agent, "do not make an identity");
    copy(&clients.file("client.key"), &servers.file("client.key"));
    rig.wait_running("a-node1", "main");
}

fn copy(from: &Path, to: &Path) {
    fs::copy(from, to).expect("copy a file");
}

#[test]
fn a_certificate_that_is_not_valid_yet_is_tried_again_soon() {
    let rig = Rig::new();
    let authority = Authority::new(&rig, "ca");
    // As for a machine that wakes in 1970, the certificate's time is yet to come.
    authority.issue_valid("server", &format!("-startdate {} -enddate 20991231235959Z", in_seconds(&rig, 15)));
    let nginx = nginx(&rig, &authority, "");
    nginx.put("pods.yaml", &manifest::idle("a"));
    let flags = [URL, "--http-check-frequency=10m", &authority.flag("manifest-url-ca-file", "ca.pem")];
    let agent = rig.start_agent(&flags);
    wait_for_complaint(&rig, &agent, "invalid peer certificate: certificate not valid yet");
    rig.wait_running("a-node1", "main");
}

#[test]
fn a_certificate_that_expires_is_noticed_and_told_once() {
    let rig = Rig::new();
    let authority = Authority::new(&rig, "ca");
    authority.issue_valid("server", &format!("-startdate 20200101000000Z -enddate {}", in_seconds(&rig, 12)));
    let log = rig.dir().join("tls.log");
    let more = format!("ssl_session_cache shared:all:1m;\nerror_log {} info;", log.display());
    let nginx = nginx(&rig, &authority, &more);
    nginx.put("pods.yaml", &manifest::idle("a"));
    let agent = start(&rig, &[&authority.flag("manifest-url-ca-file", "ca.pem")]);
    rig.wait_running("a-node1", "main");
    // The agent has asked again and again by then, as whoever resumes a session would have.
    wait_for_complaint(&rig, &agent, "invalid peer certificate: certificate expired (20");
    let alerts = || {
        let text = fs::read_to_string(&log).unwrap_or_default();
        text.lines().filter(|line| line.contains("certificate expired")).count()
    };
    let so_far = alerts();
    rig.wait("three more attempts", || alerts() >= so_far + 3);
    assert_eq!(agent.log_lines_with(FAILED).len(), 1, "{}", agent.log());
}

/// The time in so many seconds, as a certificate writes it.
fn in_seconds(rig: &Rig, seconds: u32) -> String {
    rig.output("date", &["-u", "-d", &format!("{seconds} seconds"), "+%Y%m%d%H%M%SZ"]).trim().to_owned()
}
