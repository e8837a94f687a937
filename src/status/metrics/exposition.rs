//! The Prometheus text format, version 0.0.4.
//!
//! Owns the syntax: `# HELP`, `# TYPE`, names, labels, escaping. Invariant: a page built here is valid
//! whatever the labels hold. Must not: know any metric. Pure.

use std::fmt::Write as _;

use jiff::Timestamp;

/// The value of the header `Content-Type`.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What a family of samples is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FamilyKind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Cumulated buckets, a sum and a count.
    Histogram,
}

impl FamilyKind {
    fn as_str(self) -> &'static str {
        match self {
            FamilyKind::Counter => "counter",
            FamilyKind::Gauge => "gauge",
            FamilyKind::Histogram => "histogram",
        }
    }
}

/// A page under construction: families in order, each followed by its samples.
#[derive(Debug, Default)]
pub(crate) struct Page {
    text: String,
    family: &'static str,
}

impl Page {
    /// Opens a family. The samples that follow are its.
    pub(crate) fn family(&mut self, name: &'static str, kind: FamilyKind, help: &str) {
        self.family = name;
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {}", kind.as_str());
    }

    /// Writes one sample of a counter or gauge.
    pub(crate) fn sample(&mut self, labels: &[(&str, &str)], value: f64) {
        self.line("", labels, None, value);
    }

    /// Writes one sample that was taken earlier.
    pub(crate) fn sample_at(&mut self, labels: &[(&str, &str)], value: f64, at: Timestamp) {
        self.line("", labels, None, value);
        self.text.pop();
        let _ = writeln!(self.text, " {}", at.as_millisecond());
    }

    /// Writes one histogram. `buckets` are upper bounds with the count of each alone, not cumulated.
    pub(crate) fn histogram(
        &mut self,
        labels: &[(&str, &str)],
        buckets: impl IntoIterator<Item = (f64, u64)>,
        total: u64,
        sum: f64,
    ) {
        let mut below = 0;
        for (bound, count) in buckets {
            below += count;
            self.line("_bucket", labels, Some(bound), super::as_f64(below));
        }
        self.line("_bucket", labels, Some(f64::INFINITY), super::as_f64(total));
        self.line("_sum", labels, None, sum);
        self.line("_count", labels, None, super::as_f64(total));
    }

    /// The page.
    pub(crate) fn into_text(self) -> String {
        self.text
    }

    fn line(&mut self, suffix: &str, labels: &[(&str, &str)], bound: Option<f64>, value: f64) {
        self.text.push_str(self.family);
        self.text.push_str(suffix);
        let bound = bound.map(number);
        let le = bound.as_deref().map(|bound| ("le", bound));
        for (n, (name, value)) in labels.iter().copied().chain(le).enumerate() {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.text, "{}{name}=\"{value}\"", if n == 0 { '{' } else { ',' });
        }
        if !labels.is_empty() || le.is_some() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {}", number(value));
    }
}

fn number(value: f64) -> String {
    if value == f64::INFINITY {
        "+Inf".to_owned()
    } else if value == f64::NEG_INFINITY {
        "-Inf".to_owned()
    } else {
        value.to_string()
    }
}

/// A checker of the format, for tests: it says which line is at fault, and why.
#[cfg(test)]
pub(crate) fn check(text: &str) -> Result<(), String> {
    let mut helped = std::collections::BTreeSet::new();
    let mut seen = std::collections::BTreeSet::new();
    let mut family = ("", "");
    if !text.is_empty() && !text.ends_with('\n') {
        return Err("the last line has no end".to_owned());
    }
    for line in text.lines() {
        let fault = |why: &str| Err(format!("{why}: {line}"));
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap_or((rest, ""));
            if help.is_empty() || !is_name(name) || !helped.insert(name) {
                return fault("no help, a bad name, or a second HELP");
            }
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let Some(typed) = rest.split_once(' ') else { return fault("no type") };
            if !["counter", "gauge", "histogram"].contains(&typed.1) || !helped.contains(typed.0) {
                return fault("unknown type, or TYPE before HELP");
            }
            family = typed;
        } else {
            let (name, labels, value) = sample(line).map_err(|why| format!("{why}: {line}"))?;
            let suffixes: &[&str] =
                if family.1 == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
            if name.strip_prefix(family.0).is_none_or(|suffix| !suffixes.contains(&suffix)) {
                return fault("a sample outside its family");
            }
            if name.ends_with("_bucket") && !labels.iter().any(|(name, _)| name == "le") {
                return fault("a bucket without bound");
            }
            if value.parse::<f64>().is_err() {
                return fault("not a number");
            }
            if !seen.insert((name.to_owned(), labels)) {
                return fault("the same series twice");
            }
        }
    }
    Ok(())
}

#[cfg(test)]
fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == ':')
}

#[cfg(test)]
type Labels = Vec<(String, String)>;

#[cfg(test)]
fn sample(line: &str) -> Result<(&str, Labels, &str), &'static str> {
    let end = line.find(['{', ' ']).ok_or("no value")?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = Vec::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (label, after) = rest.split_once("=\"").ok_or("no label value")?;
            let mut value = String::new();
            let mut chars = after.char_indices();
            let end = loop {
                match chars.next().ok_or("unclosed label value")? {
                    (at, '"') => break at,
                    (_, '\\') => match chars.next() {
                        Some((_, c @ ('\\' | '"' | 'n'))) => value.push(c),
                        _ => return Err("bad escape"),
                    },
                    (_, c) => value.push(c),
                }
            };
            if !is_name(label) {
                return Err("bad label name");
            }
            labels.push((label.to_owned(), value));
            rest = &after[end + 1..];
            match rest.strip_prefix(',') {
                Some(more) => rest = more,
                None => break,
            }
        }
        rest = rest.strip_prefix('}').ok_or("unclosed labels")?;
    }
    if !is_name(name) {
        return Err("bad name");
    }
    let value = rest.strip_prefix(' ').ok_or("no value")?;
    match value.split_once(' ') {
        Some((_, at)) if at.parse::<i64>().is_err() => Err("bad time"),
        Some((value, _)) => Ok((name, labels, value)),
        None => Ok((name, labels, value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped() {
        let mut page = Page::default();
        page.family("a_total", FamilyKind::Counter, "one\ntwo \\ three");
        page.sample(&[("path", "C:\\dir\n\"x\""), ("b", "")], 2.5);
        page.family("g", FamilyKind::Gauge, "limits");
        page.sample(&[], f64::INFINITY);
        page.family("h", FamilyKind::Gauge, "earlier");
        page.sample_at(&[], 1.0, Timestamp::UNIX_EPOCH);
        let text = page.into_text();
        assert_eq!(
            text,
            "# HELP a_total one\\ntwo \\\\ three\n# TYPE a_total counter\n\
             a_total{path=\"C:\\\\dir\\n\\\"x\\\"\",b=\"\"} 2.5\n\
             # HELP g limits\n# TYPE g gauge\ng +Inf\n\
             # HELP h earlier\n# TYPE h gauge\nh 1 0\n"
        );
        check(&text).unwrap();
    }

    #[test]
    fn the_checker_refuses() {
        let head = "# HELP a help\n# TYPE a gauge\n";
        for (text, why) in [
            ("a 1\n", "outside its family"),
            ("# TYPE a gauge\na 1\n", "TYPE before HELP"),
            (&format!("{head}a 1"), "no end"),
            (&format!("{head}a one\n"), "not a number"),
            (&format!("{head}a 1 now\n"), "bad time"),
            (&format!("{head}b 1\n"), "outside its family"),
            (&format!("{head}a{{x=\"1}} 1\n"), "unclosed label value"),
            (&format!("{head}a{{x=\"\\q\"}} 1\n"), "bad escape"),
            (&format!("{head}a 1\na 2\n"), "twice"),
            (&format!("{head}{head}"), "second HELP"),
        ] {
            let error = check(text).unwrap_err();
            assert!(error.contains(why), "{text:?}: {error}");
        }
    }
}
