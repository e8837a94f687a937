//! Logs of containers: rotated at their size, compressed, limited per pod, also over kills of the agent and on a full disk.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flate2::read::GzDecoder;

use crate::manifest;
use crate::rig::{ContainerState, Rig, wait_until};

/// Rotation and compression of some megabytes take several looks.
const LONG: Duration = Duration::from_secs(120);

/// The files of the log of `main`, oldest first, what is written to last; with their sizes.
fn files(dir: &Path) -> Vec<(String, u64)> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries
        .filter_map(|entry| {
            Some((entry.file_name().to_string_lossy().into_owned(), entry.metadata().ok()?.len()))
        })
        .collect();
    // "0.log" sorts before its parts, and is the newest.
    files.sort_by_key(|(name, _)| (name.ends_with(".log"), name.clone()));
    files
}

fn is_rotated(name: &str) -> bool {
    name.contains(".log.")
}

fn log_dir(rig: &Rig, pod: &str) -> PathBuf {
    let log = rig.wait_running(pod, "main").log_path;
    Path::new(&log).parent().expect("a log has a directory").to_owned()
}

/// What the container wrote, in the order of the files.
fn lines(dir: &Path) -> Vec<String> {
    let mut text = String::new();
    for (name, _) in files(dir) {
        let mut file = File::open(dir.join(&name)).expect("open a log");
        let read = match name.ends_with(".gz") {
            true => GzDecoder::new(file).read_to_string(&mut text),
            false => file.read_to_string(&mut text),
        };
        read.unwrap_or_else(|error| panic!("read {name}: {error}"));
    }
    // "TIME stdout F TEXT"
    text.lines().map(|line| line.splitn(4, ' ').nth(3).unwrap_or_default().to_owned()).collect()
}

/// Writes lines of 64 bytes, numbered: the runtime reads them in blocks, and a block never ends within one.
fn numbered(from: &str, to: &str) -> String {
    format!("awk -v n={from} -v last={to} 'BEGIN {{ for (; n <= last; n++) printf \"number%057d\\n\", n }}'")
}

fn link(rig: &Rig) -> PathBuf {
    let links = fs::read_dir(rig.container_links_dir()).expect("the links").flatten();
    links.map(|entry| entry.path()).next().expect("a link to the log")
}

#[test]
fn every_line_is_there_once_though_the_agent_is_killed_again_and_again() {
    const BATCH: usize = 2000;
    let rig = Rig::new();
    rig.write_config(
        "containerLogMaxSize: 256Ki\ncontainerLogMaxFiles: 200\ncontainerLogMonitorInterval: 3s\n",
    );
    let shared = rig.dir().join("shared");
    fs::create_dir(&shared).expect("create a directory to share");
    let script = format!(
        "i=0; until [ -e /shared/stop ]; do {}; i=$((i+1)); sleep 0.7; done\n\
         echo $i > /shared/new; mv /shared/new /shared/batches; sleep 1000",
        numbered(&format!("$((i*{BATCH}+1))"), &format!("$((i*{BATCH}+{BATCH}))"))
    );
    let volumes = format!("volumes: [{{name: s, hostPath: {{path: {}}}}}]", shared.display());
    let text = manifest::pod("writer", &volumes, &script);
    let text =
        text.replace("    command:", "    volumeMounts: [{name: s, mountPath: /shared}]\n    command:");
    rig.write_manifest("writer.yaml", &text);
    let mut agent = rig.start_agent(&[]);
    let writer = rig.wait_running("writer-node1", "main");
    let dir = log_dir(&rig, "writer-node1");
    // A part has one name or two, while it is compressed.
    let parts = || -> BTreeSet<String> {
        let names = files(&dir).into_iter().map(|(name, _)| name).filter(|name| is_rotated(name));
        names.map(|name| name.trim_end_matches(".tmp").trim_end_matches(".gz").to_owned()).collect()
    };
    let any = || files(&dir).into_iter().map(|(name, _)| name).filter(|name| is_rotated(name)).count();
    // A kill as soon as a part appears, or is being compressed: in the middle of what follows.
    for kill in 0..8 {
        let (before, names) = (parts(), any());
        let goes_on = || if kill % 2 == 0 { parts() != before } else { any() != names };
        assert!(wait_until(LONG, goes_on), "no rotation after {before:?}\n{}", rig.report());
        agent.kill9();
        if kill == 2 {
            // What an agent leaves that is killed between its steps.
            fs::write(dir.join("0.log.20200101-000000.tmp"), "half").expect("leave a temporary file");
            let newest = dir.join("0.log.20990101-000000");
            if dir.join("0.log").exists() {
                fs::rename(dir.join("0.log"), &newest).expect("rename the log, and not more");
            }
        }
        agent = rig.start_agent(&[]);
    }
    fs::write(shared.join("stop"), "").expect("let the writer stop");
    rig.wait("the writer to stop", || shared.join("batches").exists());
    let batches = fs::read_to_string(shared.join("batches")).expect("the number of batches");
    let count = batches.trim().parse::<usize>().expect("a number") * BATCH;
    let last = format!("number{count:057}");
    let is_whole = || {
        let names: Vec<_> = files(&dir).into_iter().map(|(name, _)| name).collect();
        names.contains(&"0.log".to_owned())
            && !names.iter().any(|name| name.ends_with(".tmp"))
            && names.iter().filter(|name| is_rotated(name) && !name.ends_with(".gz")).count() == 1
            && lines(&dir).contains(&last)
    };
    assert!(wait_until(LONG, is_whole), "{:?}\n{}", files(&dir), rig.report());
    let expected: Vec<_> = (1..=count).map(|number| format!("number{number:057}")).collect();
    let found = lines(&dir);
    let wrong = found.iter().zip(&expected).position(|(found, expected)| found != expected);
    assert_eq!(
        wrong,
        None,
        "{:?} of {:?}",
        wrong.map(|at| &found[at..(at + 3).min(found.len())]),
        files(&dir)
    );
    assert_eq!(found.len(), expected.len());
    assert!(files(&dir).iter().any(|(name, _)| name.ends_with(".gz")), "{:?}", files(&dir));
    // Collectors follow the link to what is written now; nothing was restarted.
    assert_eq!(fs::read_link(link(&rig)).expect("a link"), dir.join("0.log"));
    assert_eq!(rig.wait_running("writer-node1", "main").id, writer.id);
    drop(agent);
}

#[test]
fn so_many_files_are_kept_as_the_configuration_says() {
    let rig = Rig::new();
    rig.write_config(
        "containerLogMaxSize: 100Ki\ncontainerLogMaxFiles: 3\ncontainerLogMonitorInterval: 3s\n",
    );
    let shared = rig.dir().join("secret");
    fs::write(&shared, "not a log").expect("write a file outside");
    let script = format!("while :; do {}; sleep 0.5; done", numbered("1", "1000"));
    rig.write_manifest("writer.yaml", &manifest::script("writer", &script));
    let agent = rig.start_agent(&[]);
    let dir = log_dir(&rig, "writer-node1");
    // As a container could put it there through a hostPath.
    symlink(&shared, dir.join("0.log.20200101-000000")).expect("a link to a file outside");
    let parts = || -> BTreeMap<String, u64> {
        files(&dir).into_iter().filter(|(name, _)| is_rotated(name) && !name.contains("2020")).collect()
    };
    let mut seen = BTreeMap::new();
    let kept = wait_until(LONG, || {
        let now = parts();
        assert!(now.len() <= 3, "one of them is in the making: {now:?}");
        seen.extend(now.into_iter().filter(|(name, _)| name.ends_with(".gz")));
        seen.len() >= 3
    });
    assert!(kept, "{seen:?}\n{}", rig.report());
    assert_eq!(fs::read_to_string(&shared).expect("the file outside"), "not a log");
    assert!(agent.log_lines_with("cannot rotate").is_empty(), "{}", agent.log());
}

#[test]
fn a_crash_loop_that_writes_much_stays_below_the_cap_and_its_last_lines_stay() {
    // One container: 3 files of 100 KiB; each life writes 20 times that.
    const CAP: u64 = 3 * 100 * 1024;
    let rig = Rig::new();
    rig.write_config(
        "containerLogMaxSize: 100Ki\ncontainerLogMaxFiles: 3\ncontainerLogMonitorInterval: 3s\n\
         crashLoopBackOff: {maxContainerRestartPeriod: 5s}\n",
    );
    let script = format!("{}; echo last words; exit 1", numbered("1", "30000"));
    rig.write_manifest("loop.yaml", &manifest::script("loop", &script));
    let _agent = rig.start_agent(&[]);
    let newest = || rig.containers_of("loop-node1").pop();
    rig.wait("the first life", || newest().is_some());
    let log = newest().expect("a container").log_path;
    let dir = Path::new(&log).parent().expect("a log has a directory");
    let total = || files(dir).into_iter().map(|(_, size)| size).sum::<u64>();
    for attempt in 0..3 {
        let mut ended = None;
        let has_ended = wait_until(LONG, || {
            ended = newest().filter(|seen| seen.attempt >= attempt && seen.state == ContainerState::Exited);
            ended.is_some()
        });
        assert!(has_ended, "{}", rig.report());
        assert!(wait_until(LONG, || total() <= CAP), "{:?}\n{}", files(dir), rig.report());
    }
    let last = wait_until(LONG, || {
        total() <= CAP
            && newest().is_some_and(|seen| {
                let text = fs::read_to_string(&seen.log_path).unwrap_or_default();
                seen.state == ContainerState::Exited && text.ends_with(" last words\n")
            })
    });
    assert!(last, "{:?}\n{}", files(dir), rig.report());
    // Every link leads to a log.
    rig.wait("no dangling link", || {
        let links = fs::read_dir(rig.container_links_dir()).expect("the links").flatten();
        links.into_iter().all(|link| link.path().exists())
    });
}

#[test]
fn on_a_full_disk_old_parts_make_way_for_new_lines() {
    let rig = Rig::new();
    // Less than the files that are allowed.
    let logs = rig.pod_logs_dir().display().to_string();
    rig.output("mount", &["-t", "tmpfs", "-o", "size=1600k,mode=755", "tmpfs", &logs]);
    rig.write_config(
        "containerLogMaxSize: 600Ki\ncontainerLogMaxFiles: 5\ncontainerLogMonitorInterval: 3s\n",
    );
    // Hardly to be compressed.
    let script =
        "i=0; while :; do i=$((i+1)); echo start $i; head -c 30000 /dev/urandom | base64; sleep 0.2; done";
    rig.write_manifest("writer.yaml", &manifest::script("writer", script));
    let agent = rig.start_agent(&[]);
    // What is mounted there is seen inside only.
    let log = rig.wait_running("writer-node1", "main").log_path;
    let newest = || {
        let found = rig.output("sh", &["-c", &format!("grep -h ' start ' {log} 2>/dev/null | tail -n 1")]);
        found.trim().rsplit(' ').next().and_then(|number| number.parse::<u32>().ok()).unwrap_or(0)
    };
    let made_way = wait_until(LONG, || agent.log().contains("no space"));
    assert!(made_way, "{}\n{}", rig.output("ls", &["-lR", &logs]), rig.report());
    let then = newest();
    // Far more than would fit.
    assert!(wait_until(LONG, || newest() > then + 100), "{}", rig.output("ls", &["-lR", &logs]));
}
