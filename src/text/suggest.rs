//! "Did you mean": the known name nearest to one that is not known. Pure.

/// The candidate that differs only by case, or else by at most two edits.
pub(crate) fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .map(|candidate| (distance(&name.to_lowercase(), &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= 2 && *distance < candidate.len() / 2)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Insertions, deletions, substitutions and swaps of neighbours that turn one text into the other.
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut before = Vec::new();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, b) in to.iter().enumerate() {
            let mut least = (row[j] + usize::from(a != b)).min(row[j + 1] + 1).min(next[j] + 1);
            if i > 0 && j > 0 && *a == to[j - 1] && from[i - 1] == *b {
                least = least.min(before[j - 1] + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut row, next);
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn suggests_near_names_only() {
        let known = ["staticPodPath", "maxPods", "v", "address", "spec"];
        for (name, hint) in [
            ("staticPodpath", Some("staticPodPath")),
            ("staticPodPth", Some("staticPodPath")),
            ("maxPod", Some("maxPods")),
            ("adress", Some("address")),
            ("sepc", Some("spec")),
            ("psec", Some("spec")),
            ("pces", None),
            ("x", None),
            ("unrelated", None),
        ] {
            assert_eq!(nearest(name, known.into_iter()), hint, "{name}");
        }
    }
}
