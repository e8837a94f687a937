//! The signals that `lifecycle.stopSignal` may name, and their numbers on Linux.

/// The first of the real-time signals, as C libraries leave it to programs, and the last.
const RT_MIN: u32 = 34;
const RT_MAX: u32 = 64;
/// Names count up from the first and down from the last; they meet in the middle.
const RT_UP: u32 = 15;
const RT_DOWN: u32 = 14;

/// The signals with a name of their own.
const NAMED: &[(&str, u32)] = &[
    ("SIGABRT", 6),
    ("SIGALRM", 14),
    ("SIGBUS", 7),
    ("SIGCHLD", 17),
    ("SIGCLD", 17),
    ("SIGCONT", 18),
    ("SIGFPE", 8),
    ("SIGHUP", 1),
    ("SIGILL", 4),
    ("SIGINT", 2),
    ("SIGIO", 29),
    ("SIGIOT", 6),
    ("SIGKILL", 9),
    ("SIGPIPE", 13),
    ("SIGPOLL", 29),
    ("SIGPROF", 27),
    ("SIGPWR", 30),
    ("SIGQUIT", 3),
    ("SIGRTMAX", RT_MAX),
    ("SIGRTMIN", RT_MIN),
    ("SIGSEGV", 11),
    ("SIGSTKFLT", 16),
    ("SIGSTOP", 19),
    ("SIGSYS", 31),
    ("SIGTERM", 15),
    ("SIGTRAP", 5),
    ("SIGTSTP", 20),
    ("SIGTTIN", 21),
    ("SIGTTOU", 22),
    ("SIGURG", 23),
    ("SIGUSR1", 10),
    ("SIGUSR2", 12),
    ("SIGVTALRM", 26),
    ("SIGWINCH", 28),
    ("SIGXCPU", 24),
    ("SIGXFSZ", 25),
];

/// The number of a signal by its name in the API, such as `SIGUSR1` or `SIGRTMIN+3`.
pub(crate) fn number(name: &str) -> Option<u32> {
    let offset = |text: &str, limit| {
        let digits = text.parse::<u32>().ok().filter(|n| (1..=limit).contains(n));
        digits.filter(|n| n.to_string() == text)
    };
    if let Some(up) = name.strip_prefix("SIGRTMIN+") {
        return offset(up, RT_UP).map(|n| RT_MIN + n);
    }
    if let Some(down) = name.strip_prefix("SIGRTMAX-") {
        return offset(down, RT_DOWN).map(|n| RT_MAX - n);
    }
    NAMED.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_api() {
        for (name, expect) in [
            ("SIGTERM", Some(15)),
            ("SIGIOT", Some(6)),
            ("SIGRTMIN", Some(34)),
            ("SIGRTMIN+1", Some(35)),
            ("SIGRTMIN+15", Some(49)),
            ("SIGRTMIN+16", None),
            ("SIGRTMIN+0", None),
            ("SIGRTMIN+01", None),
            ("SIGRTMAX-14", Some(50)),
            ("SIGRTMAX-15", None),
            ("SIGRTMAX", Some(64)),
            ("TERM", None),
            ("sigterm", None),
            ("15", None),
            ("", None),
        ] {
            assert_eq!(number(name), expect, "{name}");
        }
    }
}
