//! The results as a table, and as files.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::contestant::{KUBELET, LIMIT, LIMIT_AT, RKUBELET, RKUBELET_APISERVER};
use crate::figures::{Figure, Samples, Spread};

const BEGIN: &str = "<!-- begin of what `make bench` writes -->";
/// The same, for the first table alone.
const BEGIN_TABLE: &str = "<!-- begin of the table that `make bench` writes -->";
const END: &str = "<!-- end of what `make bench` writes -->";

/// The table of all contestants, in Markdown, aligned for a terminal.
pub(crate) fn table(samples: &Samples) -> String {
    let have = samples.contestants();
    let mut head = vec!["figure".to_owned()];
    let columns: Vec<&str> = [KUBELET, RKUBELET, RKUBELET_APISERVER, LIMIT]
        .into_iter()
        .filter(|name| have.contains(name))
        .collect();
    for &column in &columns {
        head.push(column.to_owned());
        if [RKUBELET, RKUBELET_APISERVER].contains(&column) && have.contains(KUBELET) {
            head.extend(["ratio", "target"].map(str::to_owned));
        }
    }
    let mut rows = vec![head];
    for figure in samples.figures() {
        let reference = samples.spread(figure, KUBELET);
        let mut row = vec![figure.title()];
        for &column in &columns {
            let spread = samples.spread(figure, column);
            row.push(spread.map_or_else(String::new, |spread| cell(figure, spread)));
            if [RKUBELET, RKUBELET_APISERVER].contains(&column) && have.contains(KUBELET) {
                row.extend(verdict(figure, spread, reference, column == RKUBELET_APISERVER));
            }
        }
        rows.push(row);
    }
    markdown(&rows)
}

fn cell(figure: Figure, spread: Spread) -> String {
    let text = |value| figure.text(value);
    if text(spread.least) == text(spread.most) {
        return text(spread.median);
    }
    format!("{} ({}-{})", text(spread.median), text(spread.least), text(spread.most))
}

/// The ratio to the reference, and the target with a word on whether it is met.
fn verdict(
    figure: Figure,
    spread: Option<Spread>,
    reference: Option<Spread>,
    with_apiserver: bool,
) -> [String; 2] {
    let (Some(spread), Some(reference)) = (spread, reference) else { return Default::default() };
    // Where the reference has nothing, the value itself is compared.
    let ratio = if reference.median > 0.0 { spread.median / reference.median } else { spread.median };
    let target = figure.target(with_apiserver).map_or_else(String::new, |target| {
        format!("{target:.2} {}", if ratio <= target { "met" } else { "MISSED" })
    });
    [format!("{ratio:.3}"), target]
}

/// The bare client at its widths.
pub(crate) fn widths_table(samples: &Samples) -> String {
    let mut rows = vec![["pods", "width", "seconds"].map(str::to_owned).to_vec()];
    for figure in samples.figures() {
        for (width, name) in widths(samples) {
            if let (Some(pods), Some(spread)) = (figure.pods, samples.spread(figure, &name)) {
                rows.push(vec![pods.to_string(), width.to_string(), cell(figure, spread)]);
            }
        }
    }
    if rows.len() > 1 { markdown(&rows) } else { String::new() }
}

/// The widths at which the bare client was measured, and its names there.
pub(crate) fn widths(samples: &Samples) -> BTreeMap<usize, String> {
    let names = samples.contestants().into_iter();
    names.filter_map(|name| Some((name.strip_prefix(LIMIT_AT)?.parse().ok()?, name.to_owned()))).collect()
}

/// rkubelet alone: one row per number of pods.
pub(crate) fn curve_table(curve: &[(usize, f64, f64)], empty_kib: f64) -> String {
    let head = ["pods", "RSS, KiB", "KiB per pod", "idle CPU of a core, %"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for &(pods, rss_kib, idle) in curve {
        let each = if pods == 0 { 0.0 } else { (rss_kib - empty_kib) / pods as f64 };
        rows.push(vec![
            pods.to_string(),
            format!("{rss_kib:.0}"),
            format!("{each:.1}"),
            format!("{idle:.3}"),
        ]);
    }
    markdown(&rows)
}

fn markdown(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &[String]| {
        let cells = row.iter().zip(&widths).map(|(cell, &width)| format!(" {cell:<width$} |"));
        format!("|{}\n", cells.collect::<String>())
    };
    let rule: String = widths.iter().map(|&width| format!("{}|", "-".repeat(width + 2))).collect();
    let mut lines = rows.iter().map(|row| line(row));
    let head = lines.next().unwrap_or_default();
    format!("{head}|{rule}\n{}", lines.collect::<String>())
}

/// Puts everything, or the table alone, between the markers of a document, which ask for the one or the other.
pub(crate) fn write_between_markers(path: &Path, everything: &str, table: &str) {
    let document = fs::read_to_string(path).expect("read the document");
    let filled = [(BEGIN, everything), (BEGIN_TABLE, table)].into_iter().find_map(|(begin, text)| {
        let (before, rest) = document.split_once(begin)?;
        let (_, after) = rest.split_once(END)?;
        Some(format!("{before}{begin}\n{text}{END}{after}"))
    });
    let filled = filled.unwrap_or_else(|| panic!("{} has no markers", path.display()));
    fs::write(path, filled).expect("write the document");
}
