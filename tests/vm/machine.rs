//! One virtual machine: QEMU with a disk of its own over the shared root file system.
//!
//! Software emulation only: /dev/kvm exists on some machines that then hang. The disk is a copy-on-write overlay, which
//! outlives the process: [`Machine::cut_power`] kills QEMU, [`Machine::boot`] starts another on the same disk.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::archive::run;
use super::console::{Answer, Console, Silent};
use super::disk::Base;
use super::wait::{wait_until, wait_until_every};

/// Without `cmpxchg16b`: with it, kernels on QEMU 7.2 were damaged within seconds (docs/real-node.md).
const CPU: &str = "max,-cx16,-la57";
/// How long a boot may take: it takes 20 to 40 s on an idle machine with two cores.
const BOOT: Duration = Duration::from_secs(300);
/// How long one command may take.
pub(crate) const COMMAND: Duration = Duration::from_secs(180);
/// How long anything that is asked of the node may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(480);
/// How often the node is asked while something is awaited: each question costs it half a second of its time.
const LOOK: Duration = Duration::from_secs(3);

/// How the machine is booted.
#[derive(Default)]
pub(crate) struct Boot {
    /// What its clock shows, as QEMU's `-rtc base=` wants it; the right time if not given.
    pub(crate) clock: Option<&'static str>,
    /// More words for the kernel's command line, which units of the machine look at.
    pub(crate) words: &'static str,
}

/// A machine, on or off.
pub(crate) struct Machine {
    kernel: PathBuf,
    dir: PathBuf,
    running: Option<Running>,
}

struct Running {
    qemu: Child,
    console: Console,
}

impl Machine {
    /// A machine that is off, with a fresh disk and the files of `payload`, a tar file, as its second disk.
    pub(crate) fn new(base: &Base, dir: &Path, payload: &Path) -> Self {
        let _ = fs::remove_dir_all(dir);
        fs::create_dir_all(dir).expect("create the directory of a machine");
        run(Command::new("qemu-img")
            .args(["create", "-q", "-f", "qcow2", "-F", base.format, "-b"])
            .arg(&base.disk)
            .arg(dir.join("disk.qcow2")));
        fs::copy(payload, dir.join("payload.tar")).expect("copy the payload");
        Self { kernel: base.kernel.clone(), dir: dir.to_owned(), running: None }
    }

    /// Its disk.
    pub(crate) fn disk(&self) -> PathBuf {
        self.dir.join("disk.qcow2")
    }

    /// Turns it on, and waits until it takes commands.
    pub(crate) fn boot(&mut self, boot: &Boot) {
        if let Err(silent) = self.try_boot(boot) {
            panic!("the machine does not boot: {silent:?}\n{}", self.kernel_log());
        }
    }

    /// The same; an error if it does not come up.
    pub(crate) fn try_boot(&mut self, boot: &Boot) -> Result<(), Silent> {
        assert!(self.running.is_none(), "the machine is on");
        let began = Instant::now();
        let mut qemu =
            self.qemu(boot).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("run QEMU");
        let pipes = (qemu.stdin.take().expect("a pipe"), qemu.stdout.take().expect("a pipe"));
        let mut running = Running { qemu, console: Console::new(pipes.0, pipes.1) };
        let listens = running.console.wait_for_listener(BOOT);
        self.running = Some(running);
        listens?;
        println!("    booted in {:.0} s", began.elapsed().as_secs_f32());
        Ok(())
    }

    /// Turns it on with the terminal of this process as its console, until it is powered off.
    pub(crate) fn boot_for_a_person(&self) {
        let boot = Boot { words: "vm.shell", ..Boot::default() };
        let status = self.qemu(&boot).status().expect("run QEMU");
        assert!(status.success(), "QEMU: {status}");
    }

    fn qemu(&self, boot: &Boot) -> Command {
        // Ends with this process, however that ends.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "qemu-system-x86_64"]);
        command.args(["-M", "q35", "-accel", "tcg,thread=multi", "-cpu", CPU, "-smp", "2", "-m", "1024"]);
        command.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]);
        command.arg("-kernel").arg(&self.kernel);
        let words = format!("root=/dev/nvme0n1 rootwait rw console=ttyS0 quiet panic=-1 {}", boot.words);
        command.args(["-append", &words]);
        let log = self.dir.join("kernel.log").display().to_string().replace(',', ",,");
        command.args(["-chardev", &format!("file,id=log,append=on,path={log}"), "-serial", "chardev:log"]);
        // The kernel names disks of one driver in the order in which they answer: the two have different drivers.
        for (name, device, file, more) in [
            ("root", "nvme,serial=root", "disk.qcow2", "format=qcow2"),
            ("payload", "virtio-blk-pci", "payload.tar", "format=raw,readonly=on"),
        ] {
            let file = self.dir.join(file).display().to_string().replace(',', ",,");
            command.args(["-drive", &format!("if=none,id={name},file={file},{more}")]);
            command.args(["-device", &format!("{device},drive={name}")]);
        }
        command.args(["-chardev", "stdio,id=console,signal=off"]);
        command.args(["-device", "virtio-serial-pci", "-device", "virtconsole,chardev=console"]);
        if let Some(clock) = boot.clock {
            command.args(["-rtc", &format!("base={clock}")]);
        }
        command
    }

    /// Runs a shell script in the machine.
    pub(crate) fn answer(&mut self, script: &str) -> Answer {
        let running = self.running.as_mut().expect("the machine is on");
        match running.console.run(script, COMMAND) {
            Ok(answer) => answer,
            Err(silent) => panic!("{script}: {silent:?}\n{}", self.kernel_log()),
        }
    }

    /// The same; fails if the script does, and returns what it printed.
    pub(crate) fn sh(&mut self, script: &str) -> String {
        let answer = self.answer(script);
        assert_eq!(answer.code, 0, "{script}\n{}", answer.text);
        answer.text
    }

    /// Whether a script succeeds.
    pub(crate) fn holds(&mut self, script: &str) -> bool {
        self.answer(script).code == 0
    }

    /// Waits until a condition holds; a failure tells what the node says.
    pub(crate) fn wait(&mut self, what: &str, mut condition: impl FnMut(&mut Self) -> bool) {
        let began = Instant::now();
        if !wait_until_every(LOOK, PATIENCE, || condition(self)) {
            panic!("waited {PATIENCE:?} in vain for {what}\n{}", self.report());
        }
        if std::env::var_os("VM_VERBOSE").is_some() {
            println!("    {:.0} s for {what}", began.elapsed().as_secs_f32());
        }
    }

    /// Writes a file in the machine, whole and on disk before this returns.
    pub(crate) fn write(&mut self, path: &str, text: &str) {
        self.sh(&format!(
            "cat > '{path}.vm-tmp' <<'END-OF-FILE'\n{text}\nEND-OF-FILE\nsync '{path}.vm-tmp'\n\
             mv '{path}.vm-tmp' '{path}'; sync \"$(dirname '{path}')\""
        ));
    }

    /// Kills QEMU: what the machine had not written to its disk is lost.
    pub(crate) fn cut_power(&mut self) {
        let mut running = self.running.take().expect("the machine is on");
        running.qemu.kill().expect("kill QEMU");
        running.qemu.wait().expect("wait for QEMU");
    }

    /// Has the machine shut down, for a reboot or for good, and waits until it is off.
    pub(crate) fn shut_down(&mut self, command: &str) {
        // The answer may be lost with the machine.
        let mut running = self.running.take().expect("the machine is on");
        let _ = running.console.run(&format!("systemctl --no-block {command}"), Duration::from_secs(10));
        let off = wait_until(PATIENCE, || running.qemu.try_wait().expect("look at QEMU").is_some());
        if !off {
            let _ = running.qemu.kill();
            let _ = running.qemu.wait();
            panic!("the machine does not shut down\n{}", self.kernel_log());
        }
    }

    /// What a reader of a failed test wants to know.
    pub(crate) fn report(&mut self) -> String {
        let mut report = self.kernel_log();
        if let Some(running) = &mut self.running {
            for script in [
                "systemctl status rkubelet containerd --no-pager -n 0",
                "journalctl -b -u rkubelet --no-pager -n 60 -o short-monotonic",
                "journalctl -b -u containerd --no-pager -n 60 -o cat | grep -v level=info",
                "ctr -n k8s.io tasks ls; df -h /",
            ] {
                let text = running.console.run(script, COMMAND).map_or_else(|s| s.0, |answer| answer.text);
                report += &format!("--- {script}\n{text}");
            }
        }
        report
    }

    fn kernel_log(&self) -> String {
        let log = fs::read(self.dir.join("kernel.log")).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        format!("--- kernel\n{}\n", lines[lines.len().saturating_sub(30)..].join("\n"))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if let Some(mut running) = self.running.take() {
            let _ = running.qemu.kill();
            let _ = running.qemu.wait();
        }
        let _ = fs::remove_dir_all(&self.dir);
    }
}
