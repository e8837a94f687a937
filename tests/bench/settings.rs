//! What to measure, from the environment: see `docs/benchmark.md`.

use std::path::PathBuf;
use std::time::Duration;

/// The knobs.
pub(crate) struct Settings {
    /// How often everything is measured.
    pub(crate) rounds: usize,
    /// Numbers of pods.
    pub(crate) pods: Vec<usize>,
    /// Numbers of pods for rkubelet alone.
    pub(crate) curve: Vec<usize>,
    /// Widths of the bare client.
    pub(crate) widths: Vec<usize>,
    /// How long rest is watched.
    pub(crate) idle: Duration,
    /// How long the agent may come to rest before.
    pub(crate) settle: Duration,
    /// How long to wait for a machine that does something else.
    pub(crate) quiet: Duration,
    /// How often a single pod is started, killed and edited in each round.
    pub(crate) samples: usize,
    /// Only these figures, by key; all when empty.
    only: Vec<String>,
    /// Only these contestants, by name; all when empty.
    agents: Vec<String>,
    /// Begin with the samples of the last run.
    pub(crate) add: bool,
    /// The documents that get the tables between their markers.
    pub(crate) write: Vec<PathBuf>,
    /// A kubelet that need not be built.
    pub(crate) reference: Option<PathBuf>,
    /// How long the soak lasts.
    pub(crate) soak: Duration,
}

impl Settings {
    /// Reads the environment.
    pub(crate) fn from_env() -> Self {
        Self {
            rounds: number("BENCH_ROUNDS", 3),
            pods: numbers("BENCH_PODS", "10 100"),
            curve: numbers("BENCH_CURVE", "250 500"),
            widths: numbers("BENCH_WIDTHS", "1 2 4 8 16"),
            idle: seconds("BENCH_IDLE_SECONDS", 30),
            settle: seconds("BENCH_SETTLE_SECONDS", 20),
            quiet: seconds("BENCH_QUIET_SECONDS", 30),
            samples: number("BENCH_SAMPLES", 3),
            only: words("BENCH_ONLY", ""),
            agents: words("BENCH_AGENTS", ""),
            add: number("BENCH_ADD", 0) > 0,
            write: words("BENCH_WRITE", "").iter().map(PathBuf::from).collect(),
            reference: path("REFERENCE_KUBELET"),
            soak: seconds("SOAK_MINUTES", 30) * 60,
        }
    }

    /// Whether one of these figures is asked for.
    pub(crate) fn wants(&self, keys: &[&str]) -> bool {
        self.only.is_empty() || keys.iter().any(|key| self.only.iter().any(|only| only == key))
    }

    /// Whether this contestant takes part.
    pub(crate) fn has_agent(&self, name: &str) -> bool {
        self.agents.is_empty() || self.agents.iter().any(|agent| agent == name)
    }
}

fn words(name: &str, default: &str) -> Vec<String> {
    let text = std::env::var(name).unwrap_or_else(|_| default.to_owned());
    text.split([' ', ',']).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

fn numbers(name: &str, default: &str) -> Vec<usize> {
    let parse = |word: &String| word.parse().unwrap_or_else(|_| panic!("{name}: {word:?} is no number"));
    words(name, default).iter().map(parse).collect()
}

fn number(name: &str, default: usize) -> usize {
    numbers(name, &default.to_string()).first().copied().unwrap_or(default)
}

fn seconds(name: &str, default: usize) -> Duration {
    Duration::from_secs(number(name, default) as u64)
}

fn path(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|text| !text.is_empty()).map(PathBuf::from)
}
