//! Writes the man page and the completion of bash, from the table that `--help` is made of.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::{env, fs, io};

use rkubelet::testing::{COMMANDS, COMMON, FlagRow, OptionRow, flag_rows};

fn main() -> io::Result<()> {
    let dir = env::args_os().nth(1).ok_or_else(|| io::Error::other("usage: pages DIRECTORY"))?;
    let dir = PathBuf::from(dir);
    fs::create_dir_all(&dir)?;
    fs::write(dir.join("rkubelet.8"), man_page())?;
    fs::write(dir.join("rkubelet.bash"), bash_completion())
}

const HEAD: &str = r#".TH RKUBELET 8 "" "rkubelet {version}" "System Administration"
.SH NAME
rkubelet \- a Kubernetes node agent for static pods
.SH SYNOPSIS
.B rkubelet
.RI [ flags ]
.br
.B rkubelet check
.RI [ flags ] " FILE" ...
.br
.B rkubelet
.IR COMMAND " [" options "] " ...
.SH DESCRIPTION
.B rkubelet
reads Pod manifests from a directory and from a URL, makes the pods run on a container runtime through CRI, and keeps
them running. It takes the flags and the configuration file of kubelet 1.36.
.PP
.B rkubelet check
says what the agent would make of manifests, without an agent; see
.BR "rkubelet check --help" .
.PP
The end of the agent leaves every pod running. The next agent takes them over without a restart.
"#;

const TAIL: &str = r#".SH EXIT STATUS
.TP
.B 0
The agent was told to end, by SIGTERM or SIGINT.
.TP
.B 1
The agent cannot run: another one works with the same root directory or runtime, for example.
.TP
.B 64
A flag, a file or a field of the configuration is bad. The reason is one line on stderr, and the status that
.B systemctl status rkubelet
shows. systemd does not restart the agent.
.SH FILES
.TP
.I /etc/default/rkubelet
The flags of the service.
.TP
.I /etc/kubernetes/manifests
The manifests, with the flags that the package brings.
.TP
.I /var/lib/kubelet
What pods have on the node, and what the agent remembers.
.TP
.I /var/log/pods, /var/log/containers
The logs of the containers, and links to the newest of them.
.SH ENVIRONMENT
.TP
.B NOTIFY_SOCKET, WATCHDOG_USEC
systemd is told when the agent is ready, in one line what it does, and that it is alive.
.TP
.B JOURNAL_STREAM
If it names stderr, each line of the log has a priority and no time.
.TP
.B HTTPS_PROXY, HTTP_PROXY, NO_PROXY
For the manifest URL.
.SH SEE ALSO
.BR crictl (1),
.BR containerd (8),
.BR systemctl (1)
"#;

fn man_page() -> String {
    let mut page = HEAD.replace("{version}", env!("CARGO_PKG_VERSION"));
    for (title, is_honoured) in [("OPTIONS", true), ("OPTIONS OF KUBELET WITHOUT EFFECT YET", false)] {
        let _ = writeln!(page, ".SH {title}");
        if !is_honoured {
            page.push_str(
                "Accepted and checked, so that a command line of kubelet's can be used as it is.\n",
            );
        }
        for flag in flag_rows().filter(|flag| flag.is_honoured == is_honoured) {
            let short = flag.short.map(|letter| format!("\\fB\\-{letter}\\fR, ")).unwrap_or_default();
            let value =
                if flag.value.is_empty() { String::new() } else { format!(" \\fI{}\\fR", roff(flag.value)) };
            let _ =
                writeln!(page, ".TP\n{short}\\fB\\-\\-{}\\fR{value}\n{}", roff(flag.name), roff(flag.help));
        }
    }
    page.push_str(".SH COMMANDS\nThey ask the running agent, as root, on its socket.\n");
    for row in COMMANDS {
        let _ = writeln!(page, ".SS rkubelet {} {}\n{}.", row.name, roff(row.arguments), roff(row.summary));
        for option in row.options {
            let _ = writeln!(page, ".TP\n{}\n{}", option_heading(option), roff(option.help));
        }
        for (line, what) in row.examples {
            let _ = writeln!(page, ".TP\n.B {}\n{}", roff(line), roff(what));
        }
        let _ = writeln!(page, ".PP\nExit codes: {}.", roff(row.exit));
    }
    page.push_str(".SS Options of all commands\n");
    for option in COMMON {
        let _ = writeln!(page, ".TP\n{}\n{}", option_heading(option), roff(option.help));
    }
    page + TAIL
}

fn option_heading(option: &OptionRow) -> String {
    let short = option.short.map(|letter| format!("\\fB\\-{letter}\\fR, ")).unwrap_or_default();
    let value =
        if option.value.is_empty() { String::new() } else { format!(" \\fI{}\\fR", roff(option.value)) };
    format!("{short}\\fB\\-\\-{}\\fR{value}", roff(option.long))
}

/// A text as roff takes it: a dash as a dash, and no request at the beginning of a line.
fn roff(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

fn bash_completion() -> String {
    let names = |keep: fn(&FlagRow) -> bool| -> String {
        flag_rows().filter(keep).map(|flag| format!("--{}", flag.name)).collect::<Vec<_>>().join("\n    ")
    };
    COMPLETION
        .replace("{files}", &names(|flag| matches!(flag.value, "path" | "socket")).replace("\n    ", "|"))
        .replace("{valued}", &names(|flag| !flag.value.is_empty()).replace("\n    ", "|"))
        .replace("{flags}", &names(|_| true))
        .replace("{names}", &COMMANDS.iter().map(|row| row.name).collect::<Vec<_>>().join(" "))
        .replace("{options}", &command_options())
}

/// A line of shell for each command: its options, and what its words may be.
fn command_options() -> String {
    let mut lines = String::new();
    for row in COMMANDS {
        let options = row.options.iter().chain(COMMON).map(|option| format!("--{}", option.long));
        let words = match row.name {
            "get" => "pods events sources images",
            "diff" => "@file",
            "top" | "config" => "",
            _ => "@pod",
        };
        let options = options.collect::<Vec<_>>().join(" ");
        let _ = writeln!(lines, "    {}) options='{options}' words='{words}' ;;", row.name);
    }
    lines.trim_end().to_owned()
}

const COMPLETION: &str = r#"# bash completion of rkubelet. Generated from the table of flags.

_rkubelet() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}
  # bash splits --flag=value at the equals sign.
  if [[ $current == = ]]; then current=; fi
  if [[ $previous == = ]]; then previous=${COMP_WORDS[COMP_CWORD-2]}; fi
  COMPREPLY=()
  if [[ ${COMP_WORDS[1]} == check ]]; then
    if [[ $current == -* ]]; then
      mapfile -t COMPREPLY < <(compgen -W "--output --strict --strict-manifests --url-contents --node-name --help" -- "$current")
    else
      mapfile -t COMPREPLY < <(compgen -f -- "$current")
    fi
    return
  fi
  local options= words=
  case ${COMP_WORDS[1]} in
{options}
  esac
  if [[ -n $options ]]; then
    if [[ $current == -* ]]; then
      mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
    elif [[ $words == @file ]]; then
      mapfile -t COMPREPLY < <(compgen -f -- "$current")
    elif [[ $words == @pod ]]; then
      mapfile -t COMPREPLY < <(compgen -W "$(rkubelet get pods -o name 2>/dev/null | cut -d/ -f2)" -- "$current")
    else
      mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
    fi
    return
  fi
  case $previous in
    {files}) mapfile -t COMPREPLY < <(compgen -f -- "$current"); return ;;
    {valued}) return ;;
  esac
  if [[ $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$_rkubelet_flags" -- "$current")
  elif [[ $COMP_CWORD -eq 1 ]]; then
    mapfile -t COMPREPLY < <(compgen -W "check {names}" -- "$current")
  fi
}

_rkubelet_flags="
    {flags}
"

complete -o filenames -F _rkubelet rkubelet
"#;
