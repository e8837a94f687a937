//! The soak: pods come, die, change and go without pause, and the agent must not grow.

use std::time::Duration;

use rustix::process::Pid;

use crate::contestant::Contestant;
use crate::node::{Node, now, pause};
use crate::process::{Cost, cost};
use crate::settings::Settings;

/// How many pods live at a time.
const ALIVE: usize = 8;
/// The growth of memory that is forgiven.
const GROWTH: f64 = 1.05;

/// Runs it; true if nothing grew.
pub(crate) fn soak(settings: &Settings, contestant: &Contestant) -> Result<bool, String> {
    let node = Node::new("soak");
    let agent = node.start(contestant);
    node.wait_healthy()?;
    let pid = agent.pid().ok_or("the agent has ended")?;
    println!(
        "{:>7} {:>7} {:>9} {:>8} {:>12} {:>8}",
        "minute", "events", "RSS KiB", "threads", "descriptors", "watches"
    );
    let begin = now();
    let mut first = None;
    let (mut events, mut number, mut told) = (0, 0, 0);
    while now() - begin < settings.soak.as_secs_f64() {
        events += churn(&node, number)?;
        number += 1;
        let minute = ((now() - begin) / 60.0).floor() as u64;
        if minute > told {
            told = minute;
            let seen = at_rest(pid)?;
            print(minute, events, seen);
            first.get_or_insert(seen);
        }
    }
    let last = at_rest(pid)?;
    print(told, events, last);
    let first = first.unwrap_or(last);
    let kept = last.rss_kib as f64 <= first.rss_kib as f64 * GROWTH
        && last.threads <= first.threads
        && last.descriptors <= first.descriptors
        && last.inotify_watches <= first.inotify_watches;
    println!("{}", if kept { "Nothing grew." } else { "SOMETHING GREW." });
    Ok(kept)
}

/// One pod comes; an older one is killed, one edited, the oldest goes. Returns the number of events.
fn churn(node: &Node, number: usize) -> Result<usize, String> {
    let name = |number: usize| format!("soak-{number:06}");
    node.write(&name(number), 0);
    node.wait_stamps(&name(number), 1)?;
    let mut events = 1;
    if let Some(victim) = number.checked_sub(ALIVE / 4) {
        node.kill(&name(victim))?;
        node.wait_stamps(&name(victim), 2)?;
        events += 1;
    }
    if let Some(edited) = number.checked_sub(ALIVE / 2) {
        let before = node.stamps(&name(edited)).len();
        node.write(&name(edited), 1);
        node.wait_stamps(&name(edited), before + 1)?;
        events += 1;
    }
    if let Some(oldest) = number.checked_sub(ALIVE) {
        node.remove(&name(oldest));
        events += 1;
    }
    Ok(events)
}

/// Threads that wait for work for a while before they end do not count.
fn at_rest(pid: Pid) -> Result<Cost, String> {
    pause(Duration::from_secs(2));
    cost(pid).ok_or_else(|| "the agent has ended".to_owned())
}

fn print(minute: u64, events: usize, cost: Cost) {
    println!(
        "{minute:>7} {events:>7} {:>9} {:>8} {:>12} {:>8}",
        cost.rss_kib, cost.threads, cost.descriptors, cost.inotify_watches
    );
}
