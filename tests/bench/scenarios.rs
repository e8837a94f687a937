//! The measurements of an agent. Each begins on a fresh machine.

use std::time::Duration;

use crate::contestant::Contestant;
use crate::figures::{Figure, Kind, Samples};
use crate::node::{Node, names, now, pause};
use crate::process::{cost, cpu_seconds};
use crate::rig::{Agent, wait_until};
use crate::settings::Settings;

/// After the last process started, an agent still has something to write down.
const AFTERMATH: Duration = Duration::from_secs(3);

/// How long hundreds of containers may take until they are ready, on a slow machine.
const PROBES_PATIENCE: Duration = Duration::from_secs(600);

/// How often stats are asked for, and how far apart: what monitoring does, in less time.
const REQUESTS: usize = 100;
const BETWEEN_REQUESTS: Duration = Duration::from_millis(500);

/// One measurement of one contestant.
pub(crate) struct Run<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) contestant: &'a Contestant,
    pub(crate) samples: &'a mut Samples,
}

impl Run<'_> {
    fn add(&mut self, figure: Figure, value: f64) {
        if self.settings.wants(&[figure.kind.key()]) {
            self.samples.add(figure, self.contestant.name, value);
        }
    }

    /// The start of the agent, and one pod: started, killed, edited; several times.
    pub(crate) fn single(&mut self) -> Result<(), String> {
        let node = Node::new(&format!("{}-single", self.contestant.name));
        // The first start of all makes certificates and directories, which the later ones find.
        let agent = node.start(self.contestant);
        let healthy = node.wait_healthy()?;
        self.add(Kind::FirstHealthy.alone(), healthy - node.agent_started());
        agent.terminate();
        let agent = node.start(self.contestant);
        let healthy = node.wait_healthy()?;
        self.add(Kind::Healthy.alone(), healthy - node.agent_started());
        rest(&node, &agent, AFTERMATH)?;

        for name in names(self.settings.samples) {
            let begin = now();
            node.write(&name, 0);
            self.add(Kind::Start.alone(), node.wait_stamps(&name, 1)? - begin);
            pause(Duration::from_secs(2));
            if self.settings.wants(&[Kind::Restart.key()]) {
                let begin = now();
                node.kill(&name)?;
                self.add(Kind::Restart.alone(), node.wait_stamps(&name, 2)? - begin);
                pause(Duration::from_secs(2));
            }
            if self.settings.wants(&[Kind::Edit.key()]) {
                let before = node.stamps(&name).len();
                let begin = now();
                node.write(&name, 1);
                self.add(Kind::Edit.alone(), node.wait_stamps(&name, before + 1)? - begin);
            }
        }
        Ok(())
    }

    /// An agent at rest without pods; then many pods at once; then rest with them; then the agent's restart.
    pub(crate) fn steady(&mut self, count: usize) -> Result<(), String> {
        let node = Node::new(&format!("{}-steady", self.contestant.name));
        let agent = node.start(self.contestant);
        node.wait_healthy()?;
        let (pid, containerd) = rest(&node, &agent, AFTERMATH)?;
        let of = |pid| cost(pid).ok_or("the agent has ended");
        self.add(Kind::Rss.with(0), of(pid)?.rss_kib as f64 / 1024.0);

        let names = names(count);
        let [cpu_before] = cpu_seconds(&node.stamp(), [pid]);
        let begin = now();
        names.iter().for_each(|name| node.write(name, 0));
        self.add(Kind::AtOnce.with(count), node.wait_all(&names)? - begin);
        pause(AFTERMATH);
        let [cpu_after] = cpu_seconds(&node.stamp(), [pid]);
        self.add(Kind::StartCpu.with(count), cpu_after - cpu_before);

        if self.settings.wants(&["rss", "idle", "containerd", "wakeups"]) {
            pause(self.settings.settle);
            self.add(Kind::Rss.with(count), of(pid)?.rss_kib as f64 / 1024.0);
            let (waits, begin) = (of(pid)?.waits, now());
            let before = cpu_seconds(&node.stamp(), [pid, containerd]);
            pause(self.settings.idle);
            let after = cpu_seconds(&node.stamp(), [pid, containerd]);
            let (waited, took) = (of(pid)?.waits.saturating_sub(waits), now() - begin);
            self.add(Kind::IdleCpu.with(count), (after[0] - before[0]) / took * 100.0);
            self.add(Kind::ContainerdCpu.with(count), (after[1] - before[1]) / took * 100.0);
            self.add(Kind::Wakeups.with(count), waited as f64 / took);
        }

        if self.settings.wants(&[Kind::StatsCpu.key()]) {
            let [before] = cpu_seconds(&node.stamp(), [pid]);
            for _ in 0..REQUESTS {
                let shown = node.pods_in_summary().ok_or("no summary")?;
                if shown < count {
                    return Err(format!("{shown} of {count} pods are in the summary"));
                }
                pause(BETWEEN_REQUESTS);
            }
            let [after] = cpu_seconds(&node.stamp(), [pid]);
            self.add(Kind::StatsCpu.with(count), after - before);
        }

        if self.settings.wants(&[Kind::AgentRestart.key()]) {
            let started = |node: &Node| names.iter().map(|name| node.stamps(name).len()).sum::<usize>();
            let before = started(&node);
            agent.terminate();
            let agent = node.start(self.contestant);
            node.wait_healthy()?;
            rest(&node, &agent, AFTERMATH * 2)?;
            self.add(Kind::AgentRestart.with(count), (started(&node) - before) as f64);
        }
        Ok(())
    }

    /// Pods that are probed all the time.
    pub(crate) fn probes(&mut self, count: usize) -> Result<(), String> {
        let node = Node::new(&format!("{}-probes", self.contestant.name));
        let agent = node.start(self.contestant);
        node.wait_healthy()?;
        for name in names(count) {
            node.rig.write_manifest(&format!("{name}.yaml"), &node.probed_manifest(&name));
        }
        if !wait_until(PROBES_PATIENCE, || node.count_ready() == count) {
            return Err(format!("{} of {count} pods are ready", node.count_ready()));
        }
        let (pid, _) = rest(&node, &agent, self.settings.settle)?;
        let ([before], begin) = (cpu_seconds(&node.stamp(), [pid]), now());
        pause(self.settings.idle);
        let ([after], took) = (cpu_seconds(&node.stamp(), [pid]), now() - begin);
        self.add(Kind::ProbeCpu.with(count), (after - before) / took * 100.0);
        let cost = cost(pid).ok_or("the agent has ended")?;
        self.add(Kind::ProbeRss.with(count), cost.rss_kib as f64 / 1024.0);
        Ok(())
    }

    /// The manifests are there before the agent is.
    pub(crate) fn cold(&mut self, count: usize) -> Result<(), String> {
        let node = Node::new(&format!("{}-cold", self.contestant.name));
        let names = names(count);
        names.iter().for_each(|name| node.write(name, 0));
        let _agent = node.start(self.contestant);
        let last = node.wait_all(&names)?;
        self.add(Kind::Cold.with(count), last - node.agent_started());
        Ok(())
    }
}

/// Lets some time pass, and finds the agent and containerd still there.
fn rest(
    node: &Node,
    agent: &Agent<'_>,
    time: Duration,
) -> Result<(rustix::process::Pid, rustix::process::Pid), String> {
    pause(time);
    let ended = || format!("the agent has ended:\n{}", last_lines(&agent.log()));
    let agent = agent.pid().ok_or_else(ended)?;
    Ok((agent, node.rig.containerd_pid().ok_or("containerd has ended")?))
}

fn last_lines(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}
