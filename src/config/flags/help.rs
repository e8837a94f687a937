//! The text of `--help`: what is honoured first, then what is accepted without effect. Pure.

use std::fmt::Write as _;

use super::table::FLAGS;
use crate::config::kind::Effect;

/// One flag as people are shown it: in `--help`, in the man page and by the completion of shells.
#[derive(Debug, Clone, Copy)]
pub struct FlagRow {
    /// The long name, without dashes.
    pub name: &'static str,
    /// The one-letter name.
    pub short: Option<char>,
    /// The placeholder of the value; empty for a flag that needs none.
    pub value: &'static str,
    /// One line.
    pub help: &'static str,
    /// rkubelet acts on it; else it is only accepted and checked.
    pub is_honoured: bool,
}

/// Every flag, by name.
pub fn flag_rows() -> impl Iterator<Item = FlagRow> {
    FLAGS.iter().map(|flag| FlagRow {
        name: flag.name,
        short: flag.short(),
        value: flag.kind().word(),
        help: flag.help,
        is_honoured: flag.effect() == Effect::Honoured,
    })
}

/// The whole help text.
pub(crate) fn help_text() -> String {
    let mut text = String::from(
        "rkubelet runs the pods of a manifest directory on a CRI runtime.\n\n\
         Usage:\n  rkubelet [flags]             run the agent\n  rkubelet COMMAND ...         ask it, see rkubelet COMMAND --help: check, get, describe, why, logs,\n\
         \x20                              exec, restart, wait, top, diff, config\n",
    );
    for (title, is_honoured) in
        [("Flags", true), ("Flags of kubelet, accepted and checked, without effect yet", false)]
    {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n{title}:\n");
        for flag in flag_rows().filter(|flag| flag.is_honoured == is_honoured) {
            let _ = writeln!(text, "  {:<44} {}", heading(&flag), flag.help);
        }
    }
    text.push_str("\nA bad flag, file or field ends rkubelet with exit code 64.");
    text
}

fn heading(flag: &FlagRow) -> String {
    let short = flag.short.map_or_else(|| "    ".to_owned(), |letter| format!("-{letter}, "));
    format!("{short}--{} {}", flag.name, flag.value)
}
