//! The figures: what each is called, its unit, its target, and the samples taken of it.

use std::collections::{BTreeMap, BTreeSet};

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Binary,
    Rss,
    IdleCpu,
    ContainerdCpu,
    Wakeups,
    StartCpu,
    FirstHealthy,
    Healthy,
    Start,
    Restart,
    Edit,
    AtOnce,
    Cold,
    AgentRestart,
    ProbeRss,
    ProbeCpu,
    StatsCpu,
}

/// A row of the table: a kind, and with how many pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Figure {
    pub(crate) kind: Kind,
    pub(crate) pods: Option<usize>,
}

/// What holds of a kind: its key for `BENCH_ONLY`, its title, its unit, and the digits behind the point.
struct Facts {
    key: &'static str,
    title: &'static str,
    unit: &'static str,
    digits: usize,
}

impl Kind {
    const ALL: [Self; 17] = [
        Self::Binary,
        Self::Rss,
        Self::IdleCpu,
        Self::ContainerdCpu,
        Self::Wakeups,
        Self::StartCpu,
        Self::FirstHealthy,
        Self::Healthy,
        Self::Start,
        Self::Restart,
        Self::Edit,
        Self::AtOnce,
        Self::Cold,
        Self::AgentRestart,
        Self::ProbeRss,
        Self::ProbeCpu,
        Self::StatsCpu,
    ];

    /// A figure that depends on the number of pods.
    pub(crate) fn with(self, pods: usize) -> Figure {
        Figure { kind: self, pods: Some(pods) }
    }

    /// A figure that does not.
    pub(crate) fn alone(self) -> Figure {
        Figure { kind: self, pods: None }
    }

    /// The name of the kind in `BENCH_ONLY` and the CSV.
    pub(crate) fn key(self) -> &'static str {
        self.facts().key
    }

    fn facts(self) -> Facts {
        let (key, title, unit, digits) = match self {
            Self::Binary => ("binary", "binary, stripped", "MiB", 1),
            Self::Rss => ("rss", "RSS", "MiB", 1),
            Self::IdleCpu => ("idle", "idle CPU of a core", "%", 3),
            Self::ContainerdCpu => ("containerd", "containerd's CPU meanwhile", "%", 3),
            Self::Wakeups => ("wakeups", "wake-ups at rest", "/s", 1),
            Self::StartCpu => ("start-cpu", "CPU to start the pods", "s", 3),
            Self::FirstHealthy => ("first-healthy", "first start of all to healthy", "s", 3),
            Self::Healthy => ("healthy", "start to healthy", "s", 3),
            Self::Start => ("start", "file written to process running", "s", 3),
            Self::Restart => ("restart", "process killed to restarted", "s", 3),
            Self::Edit => ("edit", "edit to new process", "s", 3),
            Self::AtOnce => ("at-once", "pods at once, all running", "s", 2),
            Self::Cold => ("cold", "cold start to pods running", "s", 2),
            Self::AgentRestart => ("agent-restart", "restarts by an agent's restart", "", 0),
            Self::ProbeRss => ("probe-rss", "RSS with ten probes a pod", "MiB", 1),
            Self::ProbeCpu => ("probe-cpu", "CPU of a core for ten probes a pod, each second", "%", 2),
            Self::StatsCpu => ("stats-cpu", "CPU for 100 requests of /stats/summary", "s", 3),
        };
        Facts { key, title, unit, digits }
    }
}

impl Figure {
    /// What the row is called.
    pub(crate) fn title(&self) -> String {
        let facts = self.kind.facts();
        let unit = if facts.unit.is_empty() { String::new() } else { format!(", {}", facts.unit) };
        match self.pods {
            Some(pods) => format!("{} ({pods} pods){unit}", facts.title),
            None => format!("{}{unit}", facts.title),
        }
    }

    /// A value as text.
    pub(crate) fn text(&self, value: f64) -> String {
        format!("{value:.*}", self.kind.facts().digits)
    }

    /// The ratio to the reference that we aim at; an absolute value where the reference is zero.
    pub(crate) fn target(&self, with_apiserver: bool) -> Option<f64> {
        let many = self.pods.is_some_and(|pods| pods > 10);
        Some(match self.kind {
            Kind::Binary => {
                if with_apiserver {
                    0.15
                } else {
                    0.10
                }
            }
            Kind::Rss => match self.pods {
                Some(0) => 0.10,
                _ => {
                    if many {
                        0.15
                    } else {
                        0.12
                    }
                }
            },
            Kind::IdleCpu => 0.05,
            Kind::ContainerdCpu => 0.3,
            Kind::Wakeups | Kind::ProbeRss | Kind::ProbeCpu => return None,
            Kind::StartCpu => 0.15,
            Kind::FirstHealthy | Kind::Healthy => 0.1,
            Kind::Start => 0.6,
            Kind::Restart => 0.4,
            Kind::Edit => 0.05,
            Kind::AtOnce => {
                if many {
                    0.65
                } else {
                    0.9
                }
            }
            Kind::Cold => {
                if many {
                    0.65
                } else {
                    0.75
                }
            }
            Kind::AgentRestart => 0.0,
            Kind::StatsCpu => 1.0,
        })
    }
}

/// Samples by figure and contestant.
#[derive(Debug, Default)]
pub(crate) struct Samples(BTreeMap<Figure, BTreeMap<String, Vec<f64>>>);

/// The middle of some samples, and their extremes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Samples {
    /// Adds one.
    pub(crate) fn add(&mut self, figure: Figure, contestant: &str, value: f64) {
        println!("    {}: {}", figure.title(), figure.text(value));
        self.0.entry(figure).or_default().entry(contestant.to_owned()).or_default().push(value);
    }

    /// Forgets the samples of one cell.
    pub(crate) fn clear(&mut self, figure: Figure, contestant: &str) {
        self.0.entry(figure).or_default().remove(contestant);
    }

    /// Gives the samples of one contestant to another, in the place of what that one had.
    pub(crate) fn copy(&mut self, figure: Figure, from: &str, to: &str) {
        let values = self.raw(figure, from).to_vec();
        self.0.entry(figure).or_default().insert(to.to_owned(), values);
    }

    /// Takes in what an earlier run wrote; see [`Samples::csv`].
    pub(crate) fn read_csv(&mut self, text: &str) {
        for line in text.lines().skip(1) {
            let words: Vec<&str> = line.split(',').collect();
            let &[key, pods, contestant, _, value] = words.as_slice() else { continue };
            let kind = Kind::ALL.into_iter().find(|kind| kind.key() == key);
            let (Some(kind), Ok(value)) = (kind, value.parse()) else { continue };
            let row = self.0.entry(Figure { kind, pods: pods.parse().ok() }).or_default();
            row.entry(contestant.to_owned()).or_default().push(value);
        }
    }

    /// Every sample, one per line.
    pub(crate) fn csv(&self) -> String {
        let mut text = "figure,pods,contestant,sample,value\n".to_owned();
        for (figure, row) in &self.0 {
            let pods = figure.pods.map(|pods| pods.to_string()).unwrap_or_default();
            for (contestant, values) in row {
                for (number, value) in values.iter().enumerate() {
                    text += &format!("{},{pods},{contestant},{number},{value}\n", figure.kind.key());
                }
            }
        }
        text
    }

    /// The least and the most samples of a measured cell; an executable has one size.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let rows = self.0.iter().filter(|(figure, _)| figure.kind != Kind::Binary);
        let counts = || rows.clone().flat_map(|(_, row)| row.values().map(Vec::len));
        (counts().min().unwrap_or(0), counts().max().unwrap_or(0))
    }

    /// The rows that have samples.
    pub(crate) fn figures(&self) -> Vec<Figure> {
        self.0.keys().copied().collect()
    }

    /// The contestants that have samples.
    pub(crate) fn contestants(&self) -> BTreeSet<&str> {
        self.0.values().flat_map(|row| row.keys().map(String::as_str)).collect()
    }

    /// The samples of one cell, in the order in which they were taken.
    fn raw(&self, figure: Figure, contestant: &str) -> &[f64] {
        self.0.get(&figure).and_then(|row| row.get(contestant)).map_or(&[], Vec::as_slice)
    }

    /// One cell.
    pub(crate) fn spread(&self, figure: Figure, contestant: &str) -> Option<Spread> {
        let mut values = self.raw(figure, contestant).to_vec();
        values.sort_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        let (low, high) = (values[(values.len() - 1) / 2], values[values.len() / 2]);
        Some(Spread { median: (low + high) / 2.0, least, most })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_lies_in_the_middle() {
        let mut samples = Samples::default();
        let figure = Kind::Start.alone();
        assert_eq!(samples.spread(figure, "a"), None);
        for (value, median) in [(3.0, 3.0), (1.0, 2.0), (2.0, 2.0), (10.0, 2.5)] {
            samples.add(figure, "a", value);
            assert_eq!(samples.spread(figure, "a").map(|spread| spread.median), Some(median));
        }
        let spread = samples.spread(figure, "a").unwrap();
        assert_eq!((spread.least, spread.most), (1.0, 10.0));
    }

    #[test]
    fn a_run_can_add_to_an_earlier_one() {
        let mut samples = Samples::default();
        samples.add(Kind::Rss.with(10), "a", 1.5);
        samples.add(Kind::Edit.alone(), "b", 0.25);
        let mut other = Samples::default();
        other.read_csv(&samples.csv());
        assert_eq!(other.csv(), samples.csv());
        for kind in Kind::ALL {
            assert!(!kind.key().is_empty() && !kind.key().contains(','));
        }
    }
}
