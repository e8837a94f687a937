//! The command line: which flags were given, and with what. Pure: it reads no file and prints nothing.
//!
//! Invariant: every value in `Flags` is of its flag's kind, with relative paths already absolute. The syntax is
//! pflag's, as kubelet's: `--flag=value`, `--flag value`, `--bool`, `--bool=false`, `-v 2`, `_` for `-`.

pub(crate) mod help;
mod removed;
pub(crate) mod table;

use std::ffi::{OsStr, OsString};
use std::path::Path;

use lexopt::{Arg, Parser};
use serde_json::Value;

use self::removed::removed_in;
use self::table::{FLAGS, Flag, FlagTarget};
use super::error::{ConfigError, Suggestion};
use super::kind::{Effect, ValueKind};
use super::kubelet_configuration::{KubeletConfiguration, absolute};
use super::text::{combine, parse_text};
use crate::text::suggest::nearest;

/// The flags that were given.
#[derive(Debug, Default)]
pub(crate) struct Flags(Vec<(&'static Flag, Value)>);

impl Flags {
    /// Reads the arguments after the program's name. Relative paths start at `working_directory`.
    ///
    /// # Errors
    /// All that is wrong with them, not only the first.
    pub(crate) fn parse(
        arguments: impl Iterator<Item = OsString>,
        working_directory: &Path,
    ) -> Result<Self, ConfigError> {
        let mut flags = Self::default();
        let mut problems = Vec::new();
        let mut parser = Parser::from_args(arguments);
        loop {
            // lexopt hands out the first letter of `-max-pods`; the message shows the whole.
            let written = parser.try_raw_args().and_then(|rest| rest.peek().map(lossy));
            let argument = match parser.next() {
                Ok(None) => break,
                Ok(Some(argument)) => argument,
                // Only for a value that was not read, and every value is read below.
                Err(error) => return Err(ConfigError::Argument { argument: error.to_string() }),
            };
            let found = match argument {
                Arg::Long(name) => find_long(name).map(|flag| (flag, format!("--{name}"))),
                Arg::Short(letter) => find_short(letter, written).map(|flag| (flag, format!("-{letter}"))),
                Arg::Value(value) => {
                    problems.push(ConfigError::Argument { argument: lossy(&value) });
                    continue;
                }
            };
            let added = match found {
                Ok((flag, written)) => flags.read_value(flag, &written, &mut parser, working_directory),
                Err(unknown) => {
                    skip_value(&mut parser);
                    Err(unknown)
                }
            };
            problems.extend(added.err());
        }
        match ConfigError::all(problems) {
            Some(error) => Err(error),
            None => Ok(flags),
        }
    }

    fn read_value(
        &mut self,
        flag: &'static Flag,
        written: &str,
        parser: &mut Parser,
        base: &Path,
    ) -> Result<(), ConfigError> {
        let text = match flag.kind() {
            // A boolean takes its value after `=` only: `--flag false` is a flag and a stray argument.
            ValueKind::Bool | ValueKind::Version => parser.optional_value().unwrap_or_else(|| "true".into()),
            _ => parser.value().map_err(|_| ConfigError::MissingValue { flag: written.to_owned() })?,
        };
        self.add(flag, written, &text, base)
    }

    fn add(
        &mut self,
        flag: &'static Flag,
        written: &str,
        text: &OsStr,
        base: &Path,
    ) -> Result<(), ConfigError> {
        let kind = flag.kind();
        let parsed =
            text.to_str().and_then(|text| parse_text(kind, text)).filter(|value| kind.check_whole(value));
        let Some(mut value) = parsed else {
            // A text that is not a header or a URL may still contain a secret.
            let value = if matches!(kind, ValueKind::Headers | ValueKind::Url) {
                "***".to_owned()
            } else {
                lossy(text)
            };
            let expected = kind.expected();
            return Err(ConfigError::FlagValue { flag: written.to_owned(), value, expected });
        };
        if let (ValueKind::Path, Some(path)) = (kind, value.as_str()) {
            value = absolute(path, base);
        }
        match self.0.iter_mut().find(|(known, _)| known.name == flag.name) {
            Some((_, earlier)) => combine(kind, earlier, value),
            None => self.0.push((flag, value)),
        }
        Ok(())
    }

    /// The value of a flag, if it was given.
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(flag, _)| flag.name == name).map(|(_, value)| value)
    }

    /// The value of a flag as text; empty text counts as not given.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.as_str().filter(|text| !text.is_empty())
    }

    /// Whether a boolean flag was given, and is true.
    pub(crate) fn is_set(&self, name: &str) -> bool {
        self.get(name).and_then(Value::as_bool).unwrap_or(false)
    }

    /// Sets the fields that flags mirror; they take precedence over the files.
    pub(crate) fn apply_to(&self, configuration: &mut KubeletConfiguration) {
        for (flag, value) in &self.0 {
            if let FlagTarget::Field(path) = flag.target {
                configuration.set(path, value.clone());
            }
        }
    }

    /// The given flags on which rkubelet does not act yet.
    pub(crate) fn without_effect(&self) -> Vec<String> {
        let accepted = self.0.iter().filter(|(flag, _)| flag.effect() == Effect::Accepted);
        accepted.map(|(flag, _)| format!("--{}", flag.name)).collect()
    }
}

fn find_long(name: &str) -> Result<&'static Flag, ConfigError> {
    let normalized = name.replace('_', "-");
    FLAGS.iter().find(|flag| flag.name == normalized).ok_or_else(|| {
        let flag = format!("--{name}");
        match removed_in(&normalized) {
            Some(release) => ConfigError::RemovedFlag { flag, release },
            None => ConfigError::UnknownFlag { flag, hint: hint(&normalized) },
        }
    })
}

/// `written` is the whole argument, if the letter is its first.
fn find_short(letter: char, written: Option<String>) -> Result<&'static Flag, ConfigError> {
    FLAGS.iter().find(|flag| flag.short() == Some(letter)).ok_or_else(|| {
        let flag = written.unwrap_or_else(|| format!("-{letter}"));
        let name = flag.trim_start_matches('-').split('=').next().unwrap_or_default().replace('_', "-");
        ConfigError::UnknownFlag { hint: hint(&name), flag }
    })
}

/// The flag that may have been meant.
fn hint(name: &str) -> Suggestion {
    Suggestion(nearest(name, FLAGS.iter().map(|flag| flag.name)).map(|near| format!("--{near}")))
}

/// Passes over the value of a flag that is not known, so that it is not taken for a stray argument.
fn skip_value(parser: &mut Parser) {
    if parser.optional_value().is_none()
        && let Some(mut rest) = parser.try_raw_args()
    {
        rest.next_if(|next| !next.as_encoded_bytes().starts_with(b"-"));
    }
}

fn lossy(text: &OsStr) -> String {
    text.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests;
