//! The benchmark: the Go kubelet, rkubelet and a bare CRI client do the same on the same machine, in turns.
//!
//! `make bench` builds everything and runs it; `docs/benchmark.md` tells the knobs. With the argument `soak`, it
//! runs rkubelet alone under churn instead.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a benchmark talks to its user, has nothing to lose, and counts little things"
)]

#[path = "../rig/rig.rs"]
mod rig;

mod contestant;
mod figures;
mod limit;
mod machine;
mod node;
mod process;
mod reference;
mod scenarios;
mod settings;
mod soak;
mod table;

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use contestant::{Contestant, LIMIT, LIMIT_AT, RKUBELET, contestants};
use figures::{Kind, Samples};
use rig::Machine;
use scenarios::Run;
use settings::Settings;

fn main() -> ExitCode {
    let settings = Settings::from_env();
    let target = rig::build_dir().parent().expect("target/").join("bench");
    fs::create_dir_all(&target).expect("create target/bench");
    let contestants = contestants(&settings, &target);
    if std::env::args().nth(1).as_deref() == Some("soak") {
        let ours = contestants.iter().find(|one| one.name == RKUBELET).expect("rkubelet takes part");
        return match soak::soak(&settings, ours) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        };
    }
    let mut samples = Samples::default();
    if settings.add {
        samples.read_csv(&fs::read_to_string(target.join("samples.csv")).unwrap_or_default());
    }
    let mut bench = Bench { settings, samples, failures: 0 };
    Machine::keep_directories();
    bench.measure(&contestants);
    let curve = bench.curve(&contestants);
    Machine::remove_directories();
    bench.tell(&target, &curve);
    if bench.failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

struct Bench {
    settings: Settings,
    samples: Samples,
    failures: usize,
}

/// The keys of the figures that a scenario brings.
const SINGLE: [&str; 5] = ["first-healthy", "healthy", "start", "restart", "edit"];
const STEADY: [&str; 8] =
    ["rss", "idle", "containerd", "wakeups", "start-cpu", "at-once", "stats-cpu", "agent-restart"];
const PROBES: [&str; 2] = ["probe-rss", "probe-cpu"];
/// With ten probes each.
const PROBED_PODS: usize = 50;

impl Bench {
    /// All rounds. The contestants take turns, so that a slow moment of the machine meets all of them.
    fn measure(&mut self, contestants: &[Contestant]) {
        if self.settings.wants(&["binary"]) {
            for one in contestants {
                println!("{}", one.name);
                self.samples.clear(Kind::Binary.alone(), one.name);
                self.samples.add(Kind::Binary.alone(), one.name, one.size_mib());
            }
        }
        for round in 1..=self.settings.rounds {
            if self.settings.wants(&SINGLE) {
                for one in contestants {
                    self.run(round, "one pod", one, |run| run.single());
                }
                self.limit_single(round);
            }
            if self.settings.wants(&PROBES) {
                for one in contestants {
                    self.run(round, "probes", one, |run| run.probes(PROBED_PODS));
                }
            }
            for pods in self.settings.pods.clone() {
                if self.settings.wants(&STEADY) {
                    for one in contestants {
                        self.run(round, &format!("{pods} pods"), one, |run| run.steady(pods));
                    }
                }
                if self.settings.wants(&["cold"]) {
                    for one in contestants {
                        self.run(round, &format!("cold start, {pods} pods"), one, |run| run.cold(pods));
                    }
                }
                if self.settings.wants(&["at-once"]) {
                    self.limit_many(round, pods);
                }
                if self.settings.wants(&["containerd"]) {
                    self.limit_rest(round, pods);
                }
            }
        }
        self.best_width();
    }

    fn run(
        &mut self,
        round: usize,
        what: &str,
        one: &Contestant,
        scenario: impl FnOnce(&mut Run<'_>) -> Result<(), String>,
    ) {
        machine::wait_quiet(self.settings.quiet);
        println!("round {round}, {what}, {}", one.name);
        let mut run = Run { settings: &self.settings, contestant: one, samples: &mut self.samples };
        if let Err(error) = scenario(&mut run) {
            eprintln!("FAILED: round {round}, {what}, {}: {error}", one.name);
            self.failures += 1;
        }
    }

    fn limit_single(&mut self, round: usize) {
        if self.settings.has_agent(LIMIT) {
            machine::wait_quiet(self.settings.quiet);
            println!("round {round}, one pod, bare client");
            if let Err(error) = limit::single(&self.settings, &mut self.samples) {
                eprintln!("FAILED: bare client: {error}");
                self.failures += 1;
            }
        }
    }

    fn limit_rest(&mut self, round: usize, pods: usize) {
        if self.settings.has_agent(LIMIT) {
            machine::wait_quiet(self.settings.quiet);
            println!("round {round}, {pods} pods at rest, no agent");
            if let Err(error) = limit::rest(&self.settings, &mut self.samples, pods) {
                eprintln!("FAILED: rest without an agent: {error}");
                self.failures += 1;
            }
        }
    }

    fn limit_many(&mut self, round: usize, pods: usize) {
        for &width in self.settings.widths.iter().filter(|_| self.settings.has_agent(LIMIT)) {
            machine::wait_quiet(self.settings.quiet);
            println!("round {round}, {pods} pods, bare client, width {width}");
            match limit::many(pods, width) {
                Ok(took) => self.samples.add(Kind::AtOnce.with(pods), &format!("{LIMIT_AT}{width}"), took),
                Err(error) => {
                    eprintln!("FAILED: bare client: {error}");
                    self.failures += 1;
                }
            }
        }
    }

    /// The limit for many pods is the width with the best median.
    fn best_width(&mut self) {
        for figure in self.samples.figures().into_iter().filter(|figure| figure.kind == Kind::AtOnce) {
            let median = |name: &String| self.samples.spread(figure, name).map(|spread| spread.median);
            let names = table::widths(&self.samples).into_values().filter(|name| median(name).is_some());
            let best = names.min_by(|a, b| median(a).partial_cmp(&median(b)).expect("times are numbers"));
            if let Some(best) = best {
                self.samples.copy(figure, &best, LIMIT);
            }
        }
    }

    /// rkubelet alone, with ever more pods: RSS in KiB and idle CPU, once.
    fn curve(&mut self, contestants: &[Contestant]) -> String {
        let ours = contestants.iter().find(|one| one.name == RKUBELET);
        let (Some(ours), true) = (ours, self.settings.wants(&["curve"])) else { return String::new() };
        if self.settings.curve.is_empty() {
            return String::new();
        }
        let mut samples = Samples::default();
        for &pods in &self.settings.curve {
            println!("curve, {pods} pods, {}", ours.name);
            let mut run = Run { settings: &self.settings, contestant: ours, samples: &mut samples };
            if let Err(error) = run.steady(pods) {
                eprintln!("FAILED: curve, {pods} pods: {error}");
                self.failures += 1;
            }
        }
        // What the rounds measured belongs to the curve too.
        let of = |kind: Kind, pods: usize| {
            let figure = kind.with(pods);
            let spread = self.samples.spread(figure, RKUBELET).or(samples.spread(figure, RKUBELET));
            spread.map(|spread| spread.median)
        };
        let counts = [0].iter().chain(&self.settings.pods).chain(&self.settings.curve);
        let rows: Vec<_> = counts
            .filter_map(|&pods| {
                Some((pods, of(Kind::Rss, pods)? * 1024.0, of(Kind::IdleCpu, pods).unwrap_or(0.0)))
            })
            .collect();
        table::curve_table(&rows, of(Kind::Rss, 0).unwrap_or(0.0) * 1024.0)
    }

    fn tell(&self, target: &Path, curve: &str) {
        let csv = target.join("samples.csv");
        fs::write(&csv, self.samples.csv()).expect("write the samples");
        let first = format!(
            "\n{}\n\n{}",
            machine::describe(&self.settings, &self.samples),
            table::table(&self.samples)
        );
        let mut text = first.clone();
        for (title, part) in [
            ("The bare client, by width:", table::widths_table(&self.samples)),
            ("rkubelet alone:", curve.to_owned()),
        ] {
            if !part.is_empty() {
                text += &format!("\n{title}\n\n{part}");
            }
        }
        println!("\n{text}\nEvery sample: {}", csv.display());
        for path in &self.settings.write {
            table::write_between_markers(path, &text, &first);
        }
    }
}
