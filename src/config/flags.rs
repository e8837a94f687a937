//! The command line: which flags were given, and with what. Pure: it reads no file and prints nothing.
//!
//! Invariant: every value in `Flags` is of its flag's kind, with relative paths already absolute. The syntax is
//! pflag's, as kubelet's: `--flag=value`, `--flag value`, `--bool`, `--bool=false`, `-v 2`, `_` for `-`.

pub(crate) mod help;
pub(crate) mod table;

use std::ffi::{OsStr, OsString};
use std::path::Path;

use lexopt::{Arg, Parser};
use serde_json::Value;

use self::table::{FLAGS, Flag, Target};
use super::error::{ConfigError, Hint};
use super::kind::{Effect, Kind};
use super::kubelet_configuration::{KubeletConfiguration, absolute};
use super::text::{combine, parse_text};
use crate::text::suggest::nearest;

/// The flags that were given.
#[derive(Debug, Default)]
pub(crate) struct Flags(Vec<(&'static Flag, Value)>);

impl Flags {
    /// Reads the arguments after the program's name. Relative paths start at `working_directory`.
    pub(crate) fn parse(
        arguments: impl Iterator<Item = OsString>,
        working_directory: &Path,
    ) -> Result<Self, ConfigError> {
        let mut flags = Self::default();
        let mut parser = Parser::from_args(arguments);
        loop {
            // lexopt fails here only for a value that nobody took, and every value is taken below.
            let argument = match parser.next() {
                Ok(None) => return Ok(flags),
                Ok(Some(argument)) => argument,
                Err(error) => return Err(ConfigError::Argument { argument: error.to_string() }),
            };
            let (flag, written) = match argument {
                Arg::Long(name) => (find_long(name)?, format!("--{name}")),
                Arg::Short(letter) => (find_short(letter)?, format!("-{letter}")),
                Arg::Value(value) => return Err(ConfigError::Argument { argument: lossy(&value) }),
            };
            let text = match flag.kind() {
                // A boolean takes its value after `=` only: `--flag false` is a flag and a stray argument.
                Kind::Bool | Kind::Version => parser.optional_value().unwrap_or_else(|| "true".into()),
                _ => parser.value().map_err(|_| ConfigError::MissingValue { flag: written.clone() })?,
            };
            flags.add(flag, &written, &text, working_directory)?;
        }
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
            // What is no header or URL may still hold a secret.
            let value =
                if matches!(kind, Kind::Headers | Kind::Url) { "***".to_owned() } else { lossy(text) };
            let expected = kind.expected();
            return Err(ConfigError::FlagValue { flag: written.to_owned(), value, expected });
        };
        if let (Kind::Path, Some(path)) = (kind, value.as_str()) {
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

    /// Writes the flags that mirror fields over what the files said.
    pub(crate) fn apply_to(&self, configuration: &mut KubeletConfiguration) {
        for (flag, value) in &self.0 {
            if let Target::Field(path) = flag.target {
                configuration.set(path, value.clone());
            }
        }
    }

    /// The flags that were given and on which rkubelet does not act yet.
    pub(crate) fn without_effect(&self) -> Vec<String> {
        let idle = self.0.iter().filter(|(flag, _)| flag.effect() == Effect::Accepted);
        idle.map(|(flag, _)| format!("--{}", flag.name)).collect()
    }
}

fn find_long(name: &str) -> Result<&'static Flag, ConfigError> {
    let normalized = name.replace('_', "-");
    FLAGS.iter().find(|flag| flag.name == normalized).ok_or_else(|| {
        let hint = nearest(&normalized, FLAGS.iter().map(|flag| flag.name)).map(|near| format!("--{near}"));
        ConfigError::UnknownFlag { flag: format!("--{name}"), hint: Hint(hint) }
    })
}

fn find_short(letter: char) -> Result<&'static Flag, ConfigError> {
    let unknown = || ConfigError::UnknownFlag { flag: format!("-{letter}"), hint: Hint(None) };
    FLAGS.iter().find(|flag| flag.short() == Some(letter)).ok_or_else(unknown)
}

fn lossy(text: &OsStr) -> String {
    text.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests;
