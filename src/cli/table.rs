//! Aligned tables, and colours where a person reads them. Pure.

use crate::text::excerpt::one_line;

/// The most bytes of a cell that is not the last.
const MAX_CELL: usize = 120;

/// Whether texts may have colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Colours {
    /// A terminal reads them.
    On,
    /// Something else does.
    Off,
}

/// How good or bad something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    /// As it should be.
    Good,
    /// Not yet, or no more, as it should be.
    Doubtful,
    /// Wrong.
    Bad,
    /// Neither.
    Plain,
}

/// A cell of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cell(pub(super) String, pub(super) Tone);

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self(text.to_owned(), Tone::Plain)
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self(text, Tone::Plain)
    }
}

/// The text in the colour of its tone.
pub(super) fn paint(text: &str, tone: Tone, colours: Colours) -> String {
    let code = match (colours, tone) {
        (Colours::Off, _) | (_, Tone::Plain) => return text.to_owned(),
        (Colours::On, Tone::Good) => 32,
        (Colours::On, Tone::Doubtful) => 33,
        (Colours::On, Tone::Bad) => 31,
    };
    format!("\u{1b}[{code}m{text}\u{1b}[0m")
}

/// The rows below their heads, in columns.
pub(super) fn table(heads: &[&str], rows: &[Vec<Cell>], colours: Colours) -> String {
    let rows: Vec<Vec<Cell>> =
        std::iter::once(heads.iter().map(|head| Cell::from(*head)).collect())
            .chain(rows.iter().map(|row| {
                row.iter().enumerate().map(|(at, cell)| shown(cell, at + 1 < row.len())).collect()
            }))
            .collect();
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.0.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..heads.len()).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, Cell(cell, tone)) in row.iter().enumerate() {
            line.push_str(&paint(cell, *tone, colours));
            if column + 1 < row.len() {
                let gap =
                    widths.get(column).map_or(0, |width| width.saturating_sub(cell.chars().count())) + 3;
                line.extend(std::iter::repeat_n(' ', gap));
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// What is not ours is on one line, and says so where there is nothing.
fn shown(Cell(text, tone): &Cell, is_inner: bool) -> Cell {
    let most = if is_inner { MAX_CELL } else { 10 * MAX_CELL };
    Cell(if text.is_empty() { "-".to_owned() } else { one_line(text, most) }, *tone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_by_characters_and_colours_take_no_room() {
        let rows = [
            vec![Cell("wäb".into(), Tone::Plain), Cell("Running".into(), Tone::Good), "1".into()],
            vec!["etcd-node1".into(), Cell("no\n".into(), Tone::Bad), "".into()],
        ];
        let heads = ["NAME", "STATUS", "RESTARTS"];
        assert_eq!(
            table(&heads, &rows, Colours::Off),
            "NAME         STATUS    RESTARTS\nwäb          Running   1\netcd-node1   no\\n      -\n"
        );
        let coloured = table(&heads, &rows, Colours::On);
        assert!(coloured.contains("wäb          \u{1b}[32mRunning\u{1b}[0m   1\n"), "{coloured:?}");
        assert_eq!(table(&["NAME"], &[], Colours::On), "NAME\n");
    }
}
