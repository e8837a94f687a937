//! "Did you mean": the known name nearest to one that is not known. Pure.

/// The candidate that differs only by case, or else by at most two edits.
pub(crate) fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .map(|candidate| (distance(&name.to_lowercase(), &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= 2 && *distance < candidate.len() / 2)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Insertions, deletions and substitutions that turn one text into the other.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let substituted = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn suggests_near_names_only() {
        let known = ["staticPodPath", "maxPods", "v", "address"];
        for (name, hint) in [
            ("staticPodpath", Some("staticPodPath")),
            ("staticPodPth", Some("staticPodPath")),
            ("maxPod", Some("maxPods")),
            ("adress", Some("address")),
            ("x", None),
            ("unrelated", None),
        ] {
            assert_eq!(nearest(name, known.into_iter()), hint, "{name}");
        }
    }
}
