//! What a Secret holds is shown nowhere: in no log, verdict, status, event, or core file.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::{VALUE, restart_container, said, secret, served};
use crate::rig::{Machine, Rig};
use crate::volumes::pod;

/// Every file below a directory that holds the text, with its mode.
fn files_with(dir: &Path, text: &str) -> Vec<(String, u32)> {
    let mut found = Vec::new();
    let mut open = vec![dir.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).into_iter().flatten().flatten() {
            let Ok(metadata) = fs::symlink_metadata(entry.path()) else { continue };
            if metadata.is_dir() {
                open.push(entry.path());
            } else if metadata.is_file()
                && fs::read(entry.path())
                    .is_ok_and(|bytes| bytes.windows(text.len()).any(|part| part == text.as_bytes()))
            {
                found.push((entry.path().display().to_string(), metadata.mode() & 0o777));
            }
        }
    }
    found
}

#[test]
fn what_a_secret_holds_is_shown_nowhere() {
    let rig = Rig::new();
    let agent = rig.start_agent(&["-v=10"]);
    let from = "envFrom: [{secretRef: {name: login}}]\nvolumeMounts: [{name: v, mountPath: /v}]";
    let volume = "volumes: [{name: v, secret: {secretName: login}}]";
    let script = "[ \"$password\" = \"$(cat /v/password)\" ] && echo same";
    rig.write_manifest("login.yaml", &secret("login", &[("password", VALUE)]));
    rig.write_manifest("user.yaml", &pod("user", "", volume, from, script));
    assert_eq!(said(&rig, "user"), ["same", "done"]);
    // Refused in every way that comes to mind.
    let bad = [
        format!("stringData: {{../x: {VALUE}}}"),
        format!("data: {{password: {VALUE}!}}"),
        format!("stringData: {{password: [{VALUE}]}}"),
        format!("stringData: {VALUE}"),
        format!("stringData: {{password: *{VALUE}}}"),
        format!("stringData: {{password: \"{VALUE}"),
        format!("immutable: {VALUE}"),
        format!("type: kubernetes.io/dockerconfigjson\nstringData: {{.dockerconfigjson: {VALUE}}}"),
    ];
    for (index, rest) in bad.iter().enumerate() {
        let text = format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: bad{index}}}\n{rest}\n");
        rig.write_manifest(&format!("bad{index}.yaml"), &text);
    }
    rig.wait("the refusals", || served(&rig, "/verdicts").matches("\"refused\"").count() == bad.len());
    restart_container(&rig, "user");
    rig.remove_manifest("login.yaml");
    agent.wait_for_log("manifest is gone");
    rig.wait("what is kept", || !files_with(&rig.root_dir().join("pods"), "login").is_empty());
    for path in ["/verdicts", "/pods", "/metrics", "/events"] {
        assert!(!served(&rig, path).contains(VALUE), "{path}");
    }
    assert!(!agent.log().contains(VALUE), "{}", agent.log());
    for (file, mode) in files_with(&rig.root_dir(), VALUE) {
        let in_volume = file.contains("/volumes/kubernetes.io~secret/");
        assert!(in_volume || mode == 0o600, "{file} has mode {mode:o}");
    }
    assert_eq!(files_with(&rig.pod_logs_dir(), VALUE), []);
    let checked =
        Command::new(env!("CARGO_BIN_EXE_rkubelet")).arg("check").arg(rig.manifest_dir()).output().unwrap();
    assert_eq!(checked.status.code(), Some(1));
    let text = [checked.stdout, checked.stderr].concat();
    assert!(!String::from_utf8_lossy(&text).contains(VALUE), "{}", String::from_utf8_lossy(&text));
}

/// Lets go of the right to read the memory of any process, which root has, for this command.
const WITHOUT_PTRACE: [&str; 4] = ["setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace", "--"];

/// Whether somebody with the same user and capabilities has access to the process: the kernel judges that by whether it may be
/// dumped.
fn is_dumpable(pid: Pid) -> bool {
    let file = format!("/proc/{}/exe", pid.as_raw_nonzero());
    let read = Command::new(WITHOUT_PTRACE[0]).args(&WITHOUT_PTRACE[1..]).args(["readlink", &file]).output();
    assert!(Path::new(&file).read_link().is_ok(), "who has all capabilities sees it");
    read.expect("run setpriv").status.success()
}

#[test]
fn the_agents_memory_is_never_dumped() {
    let rig = Rig::new();
    // A shell is the parent: it is told whether a core was dumped, and says so.
    let script = "ulimit -c unlimited; cd \"$DIR\"; \"$@\"; echo \"ended: $?\"";
    let dir = rig.dir().join("cores");
    fs::create_dir(&dir).unwrap();
    let environment = format!("DIR={}", dir.display());
    let launcher: Vec<&str> =
        WITHOUT_PTRACE.into_iter().chain(["env", &environment, "bash", "-c", script, "bash"]).collect();
    let crash = |shell: Pid| {
        let children = format!("/proc/{0}/task/{0}/children", shell.as_raw_nonzero());
        let child = || Pid::from_raw(fs::read_to_string(&children).ok()?.trim().parse().ok()?);
        rig.wait("the shell's child", || child().is_some());
        let pid = child().expect("a child");
        (pid, move || kill_process(pid, Signal::ABORT).expect("a signal that dumps core"))
    };

    // Another program, to see what this machine does with one that may be dumped.
    let mut other = rig.command(launcher[0]);
    other.args(&launcher[1..]).args(["sleep", "1000"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let other = other.spawn().expect("run a shell");
    rig.wait("the shell", || Machine::pid_behind(&other).is_some());
    let (pid, end) = crash(Machine::pid_behind(&other).expect("a shell"));
    rig.wait("the program", || {
        fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_nonzero())).is_ok_and(|name| name == "sleep\n")
    });
    assert!(is_dumpable(pid), "the check can fail");
    end();
    let said = other.wait_with_output().expect("wait for the shell");
    let said = [said.stdout, said.stderr].concat();
    let dumps = String::from_utf8_lossy(&said).contains("core dumped");

    let agent = rig.start_agent_through(&launcher, &[]);
    rig.write_manifest("login.yaml", &secret("login", &[("password", VALUE)]));
    agent.wait_for_log("Secret default/login");
    let found = fs::read_dir(&dir).expect("a directory").count();
    let (pid, end) = crash(agent.pid().expect("a shell"));
    assert!(!is_dumpable(pid), "the kernel would dump the agent's memory");
    end();
    agent.wait_for_log("ended: 134");
    assert!(!agent.log().contains("core dumped"), "{}", agent.log());
    assert_eq!(
        fs::read_dir(&dir).expect("a directory").count(),
        found,
        "other programs are dumped here: {dumps}"
    );
}
