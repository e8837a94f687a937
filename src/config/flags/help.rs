//! The text of `--help`: what is honoured first, then what is accepted without effect. Pure.

use std::fmt::Write as _;

use super::table::{FLAGS, Flag};
use crate::config::kind::Effect;

/// The whole help text.
pub(crate) fn help_text() -> String {
    let mut text = String::from(
        "rkubelet runs the pods of a manifest directory on a CRI runtime.\n\n\
         Usage:\n  rkubelet [flags]\n  rkubelet check [flags] FILE...   check manifests, see rkubelet check --help\n",
    );
    for (title, effect) in [
        ("Flags", Effect::Honoured),
        ("Flags of kubelet, accepted and checked, without effect yet", Effect::Accepted),
    ] {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n{title}:\n");
        for flag in FLAGS.iter().filter(|flag| flag.effect() == effect) {
            let _ = writeln!(text, "  {:<44} {}", heading(flag), flag.help);
        }
    }
    text.push_str("\nA bad flag, file or field ends rkubelet with exit code 64.");
    text
}

fn heading(flag: &Flag) -> String {
    let short = flag.short().map_or_else(|| "    ".to_owned(), |letter| format!("-{letter}, "));
    format!("{short}--{} {}", flag.name, flag.kind().word())
}
