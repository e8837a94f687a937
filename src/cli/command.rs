//! The table of the operator's commands: what `--help` prints, what the man page and the completion of shells are generated
//! from, and what command lines are read by. Pure.

use std::ffi::OsString;
use std::fmt::Write as _;

use lexopt::{Arg, Parser};

use super::UsageError;
use crate::text::suggest::nearest;

/// One option of a command.
#[derive(Debug, Clone, Copy)]
pub struct OptionRow {
    /// The one-letter name.
    pub short: Option<char>,
    /// The long name, without dashes.
    pub long: &'static str,
    /// The placeholder of its value; empty for a switch.
    pub value: &'static str,
    /// One line.
    pub help: &'static str,
}

/// One command.
#[derive(Debug)]
pub struct CommandRow {
    /// Its name.
    pub name: &'static str,
    /// What follows the name.
    pub arguments: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Its own options, beside those of all commands.
    pub options: &'static [OptionRow],
    /// Command lines, each with what it does.
    pub examples: &'static [(&'static str, &'static str)],
    /// What the exit codes mean.
    pub exit: &'static str,
}

const fn option(short: char, long: &'static str, value: &'static str, help: &'static str) -> OptionRow {
    OptionRow { short: Some(short), long, value, help }
}

const fn long(long: &'static str, value: &'static str, help: &'static str) -> OptionRow {
    OptionRow { short: None, long, value, help }
}

/// What all commands that ask the agent take.
pub static COMMON: &[OptionRow] = &[
    option('n', "namespace", "NAME", "the pod's namespace, where its name alone is not clear"),
    long("socket", "PATH", "the agent's socket (default /run/rkubelet/rkubelet.sock)"),
    option('h', "help", "", "print this and exit"),
];

const OUTPUT: OptionRow = option('o', "output", "FORMAT", "json, yaml, wide or name, instead of a table");
const WATCH: OptionRow = option('w', "watch", "", "go on, and print again what changes");
const CONTAINER: OptionRow = option('c', "container", "NAME", "the container (default: the first)");
const EXIT: &str = "0 done, 1 no such pod or it failed, 64 bad usage, 69 the agent cannot be reached";

/// All commands but `check`, which has its own page.
#[rustfmt::skip]
pub static COMMANDS: &[CommandRow] = &[
    CommandRow {
        name: "get", arguments: "pods|events|sources|images [NAME]",
        summary: "list pods, events, what became of each manifest, or images",
        options: &[OUTPUT, WATCH],
        examples: &[
            ("rkubelet get pods", "all pods of this node"),
            ("rkubelet get pods -o wide", "with addresses"),
            ("rkubelet get events web", "what happened to the pod web"),
            ("rkubelet get sources", "which manifests are accepted or refused, and why"),
        ],
        exit: EXIT,
    },
    CommandRow {
        name: "describe", arguments: "POD", summary: "all that is known of a pod, with its events",
        options: &[],
        examples: &[("rkubelet describe web", "a pod by the name in its manifest, or with the node's name behind it")],
        exit: EXIT,
    },
    CommandRow {
        name: "why", arguments: "POD", summary: "one sentence that says why a pod is as it is, then the evidence",
        options: &[],
        examples: &[("rkubelet why web", "why does web not run?")],
        exit: "0 the pod is well, 1 it is not, or there is none, 64 bad usage, 69 the agent cannot be reached",
    },
    CommandRow {
        name: "logs", arguments: "POD", summary: "the output of a container",
        options: &[
            CONTAINER,
            option('f', "follow", "", "go on with what is printed from now on"),
            option('p', "previous", "", "of the container that ended before this one"),
            long("tail", "N", "the last N lines only"),
            long("since", "DURATION", "what is newer than this, such as 5m"),
            long("timestamps", "", "with the time of each line"),
        ],
        examples: &[("rkubelet logs -f web", "follow"), ("rkubelet logs -p -c main web", "why did it crash?")],
        exit: EXIT,
    },
    CommandRow {
        name: "exec", arguments: "POD -- COMMAND [ARGUMENT...]", summary: "run a command inside a container",
        options: &[
            CONTAINER,
            option('i', "stdin", "", "pass on what is typed"),
            option('t', "tty", "", "with a terminal"),
        ],
        examples: &[("rkubelet exec -it web -- sh", "a shell"), ("rkubelet exec web -- cat /etc/hosts", "one command")],
        exit: "that of the command; 64 bad usage, 69 the agent cannot be reached",
    },
    CommandRow {
        name: "restart", arguments: "POD", summary: "replace a pod by a new instance of the same manifest",
        options: &[],
        examples: &[("rkubelet restart web", "its containers are ended within their grace period and made anew")],
        exit: EXIT,
    },
    CommandRow {
        name: "wait", arguments: "POD", summary: "wait until a pod has a condition",
        options: &[
            long("for", "CONDITION", "Ready (default), Initialized, another condition, or a phase such as Succeeded"),
            long("timeout", "DURATION", "give up after this long (default 5m)"),
        ],
        examples: &[("rkubelet wait web --for=Ready --timeout=2m", "in a script")],
        exit: "0 it has, 1 it has not within the time, 64 bad usage, 69 the agent cannot be reached",
    },
    CommandRow {
        name: "top", arguments: "", summary: "what the pods use",
        options: &[WATCH],
        examples: &[("rkubelet top", "CPU and memory of each pod")],
        exit: EXIT,
    },
    CommandRow {
        name: "diff", arguments: "FILE|DIRECTORY", summary: "which pods would this edit start, restart or end, and why",
        options: &[
            long("as", "PATH", "where FILE would lie: compare it with what the agent runs of that path"),
            OUTPUT,
        ],
        examples: &[
            ("rkubelet diff /etc/kubernetes/manifests", "what the next read of the directory would change"),
            ("rkubelet diff new.yaml --as /etc/kubernetes/manifests/web.yaml", "before the edit"),
        ],
        exit: "0 nothing changes, 1 something does, 64 bad usage, 69 the agent cannot be reached",
    },
    CommandRow {
        name: "config", arguments: "[-- FLAG...]",
        summary: "the settings that are not the default, and where each comes from",
        options: &[OUTPUT, long("all", "", "the defaults too")],
        examples: &[
            ("rkubelet config", "of the running agent's command line, and its files as they are now"),
            ("rkubelet config -- --config=/etc/kubelet.yaml", "of this command line"),
        ],
        exit: "0 done, 64 the configuration is bad, 69 the agent cannot be reached",
    },
];

/// A command line, read by the table.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ParsedCommand {
    options: Vec<(&'static str, String)>,
    /// What is no option, in its order.
    pub(super) words: Vec<String>,
}

impl ParsedCommand {
    /// The last value of an option.
    pub(super) fn value(&self, long: &str) -> Option<&str> {
        self.options.iter().rev().find(|(name, _)| *name == long).map(|(_, value)| value.as_str())
    }

    /// Whether a switch is given.
    pub(super) fn has(&self, long: &str) -> bool {
        self.value(long).is_some()
    }
}

/// The command of this name.
pub(super) fn find(name: &str) -> Option<&'static CommandRow> {
    COMMANDS.iter().find(|row| row.name == name)
}

/// Reads the arguments after the command's name.
pub(super) fn parse(
    row: &'static CommandRow,
    arguments: impl Iterator<Item = OsString>,
) -> Result<ParsedCommand, UsageError> {
    let wrong = |reason: String| UsageError::Argument { command: row.name, reason };
    let known = || row.options.iter().chain(COMMON);
    let mut parsed = ParsedCommand::default();
    let mut parser = Parser::from_args(arguments);
    loop {
        let argument = parser.next().map_err(|error| wrong(error.to_string()))?;
        let found = match argument {
            None => return Ok(parsed),
            Some(Arg::Value(word)) => {
                parsed.words.push(word.to_string_lossy().into_owned());
                continue;
            }
            Some(Arg::Long(name)) => known().find(|option| option.long == name).ok_or_else(|| {
                let near = nearest(name, known().map(|option| option.long));
                let hint = near.map(|near| format!(", did you mean --{near}?")).unwrap_or_default();
                format!("unknown option --{name}{hint}")
            }),
            Some(Arg::Short(letter)) => {
                known().find(|option| option.short == Some(letter)).ok_or_else(|| {
                    format!("unknown option -{letter}; what is run in a container stands after --")
                })
            }
        };
        let option = found.map_err(wrong)?;
        let value = match option.value {
            "" => String::new(),
            _ => {
                let value = parser.value().map_err(|error| wrong(error.to_string()))?;
                value.to_string_lossy().into_owned()
            }
        };
        parsed.options.push((option.long, value));
    }
}

/// The help of one command.
pub(super) fn help(row: &CommandRow) -> String {
    let mut text = format!(
        "rkubelet {}: {}.\n\nUsage:\n  rkubelet {} [options] {}\n\nExamples:\n",
        row.name, row.summary, row.name, row.arguments
    );
    for (line, what) in row.examples {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {line}\n      {what}");
    }
    text.push_str("\nOptions:\n");
    for option in row.options.iter().chain(COMMON) {
        let short = option.short.map_or_else(|| "    ".to_owned(), |letter| format!("-{letter}, "));
        let name = format!("{short}--{} {}", option.long, option.value);
        let _ = writeln!(text, "  {name:<28} {}", option.help);
    }
    let _ = writeln!(text, "\nExit codes: {}.", row.exit);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(name: &str, arguments: &[&str]) -> Result<ParsedCommand, String> {
        let row = find(name).expect("a command");
        parse(row, arguments.iter().map(OsString::from)).map_err(|error| error.to_string())
    }

    #[test]
    fn command_lines_are_read_by_the_table() {
        let exec = parsed("exec", &["-it", "web", "-c", "main", "--", "sh", "-c", "ls -l"]).unwrap();
        assert_eq!(exec.words, ["web", "sh", "-c", "ls -l"]);
        assert!(exec.has("stdin") && exec.has("tty"));
        assert_eq!(exec.value("container"), Some("main"));
        let logs = parsed("logs", &["--tail=5", "web", "--tail", "7"]).unwrap();
        assert_eq!((logs.value("tail"), logs.has("follow")), (Some("7"), false));
        for (name, arguments, expect) in [
            ("logs", &["--folow"][..], "did you mean --follow?"),
            ("exec", &["web", "ls", "-l"], "stands after --"),
            ("logs", &["--tail"], "--tail"),
        ] {
            let error = parsed(name, arguments).unwrap_err();
            assert!(error.contains(expect), "{error}");
        }
    }

    #[test]
    fn every_command_has_help_with_examples() {
        for row in COMMANDS {
            let text = help(row);
            assert!(!row.examples.is_empty() && text.contains("Exit codes: "), "{text}");
            assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
            let mut letters: Vec<_> =
                row.options.iter().chain(COMMON).filter_map(|option| option.short).collect();
            letters.sort_unstable();
            let count = letters.len();
            letters.dedup();
            assert_eq!(letters.len(), count, "{}", row.name);
            for (line, _) in row.examples {
                let words = line.split(' ').skip(2).map(OsString::from);
                assert!(parse(row, words).is_ok(), "{line}");
            }
        }
    }
}
