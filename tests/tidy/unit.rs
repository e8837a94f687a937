//! The rules for the systemd unit.

/// What the agent's promises rest on, as section, directive and value.
const MUST_HAVE: &[(&str, &str, &str)] = &[
    ("Unit", "Wants", "containerd.service"),
    ("Unit", "After", "containerd.service"),
    ("Unit", "StartLimitIntervalSec", "0"),
    ("Service", "Type", "notify"),
    ("Service", "NotifyAccess", "main"),
    ("Service", "Restart", "always"),
    ("Service", "RestartPreventExitStatus", "64"),
    ("Service", "KillMode", "process"),
    ("Service", "Delegate", "yes"),
    ("Service", "OOMScoreAdjust", "-999"),
    ("Service", "EnvironmentFile", "-/etc/default/rkubelet"),
    ("Service", "NoNewPrivileges", "yes"),
    ("Install", "WantedBy", "multi-user.target"),
];

/// Present, whatever their value.
const MUST_BE_SET: &[&str] = &["ExecStart", "RestartSec", "WatchdogSec"];

/// Each breaks something that works today, mostly by a mount namespace of the agent's own.
const MUST_NOT_HAVE: &[&str] = &[
    "Requires",
    "Requisite",
    "BindsTo",
    "PartOf",
    "BindPaths",
    "BindReadOnlyPaths",
    "DeviceAllow",
    "DevicePolicy",
    "DynamicUser",
    "ExecPaths",
    "ExtensionDirectories",
    "ExtensionImages",
    "InaccessiblePaths",
    "LogNamespace",
    "MountFlags",
    "MountImages",
    "NoExecPaths",
    "PrivateDevices",
    "PrivateIPC",
    "PrivateMounts",
    "PrivateNetwork",
    "PrivateTmp",
    "PrivateUsers",
    "ProcSubset",
    "ProtectClock",
    "ProtectControlGroups",
    "ProtectHome",
    "ProtectHostname",
    "ProtectKernelLogs",
    "ProtectKernelModules",
    "ProtectKernelTunables",
    "ProtectProc",
    "ProtectSystem",
    "ReadOnlyPaths",
    "ReadWritePaths",
    "RestrictNamespaces",
    "RestrictSUIDSGID",
    "RootDirectory",
    "RootImage",
    "TemporaryFileSystem",
];

/// What is wrong with the unit.
pub(crate) fn faults(text: &str) -> Vec<String> {
    let mut section = "";
    let mut found = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', ';'])) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name;
        } else if let Some((name, value)) = line.split_once('=') {
            found.push((section, name.trim(), value.trim()));
        } else {
            return vec![format!("not a directive: {line}")];
        }
    }
    let missing = MUST_HAVE
        .iter()
        .filter(|(section, name, value)| {
            !found
                .iter()
                .any(|(s, n, v)| s == section && n == name && v.split_whitespace().any(|v| v == *value))
        })
        .map(|(section, name, value)| format!("[{section}] lacks {name}={value}"));
    let unset = MUST_BE_SET
        .iter()
        .filter(|name| !found.iter().any(|(_, n, value)| n == *name && !value.is_empty()))
        .map(|name| format!("[Service] lacks {name}="));
    let forbidden = found
        .iter()
        .filter(|(_, name, _)| MUST_NOT_HAVE.contains(name))
        .map(|(section, name, _)| format!("[{section}] must not have {name}="));
    missing.chain(unset).chain(forbidden).collect()
}

#[test]
fn good_and_bad() {
    let mut good = String::new();
    for section in ["Unit", "Service", "Install"] {
        good.push_str(&format!("[{section}]\n# ProtectSystem=strict\n"));
        for (_, name, value) in MUST_HAVE.iter().filter(|(s, ..)| *s == section) {
            good.push_str(&format!("{name}={value}\n"));
        }
        if section == "Service" {
            MUST_BE_SET.iter().for_each(|name| good.push_str(&format!("{name}=1\n")));
        }
    }
    assert_eq!(faults(&good), [""; 0]);
    for (_, name, value) in MUST_HAVE {
        let bad = good.replacen(&format!("{name}={value}\n"), &format!("{name}=other\n"), 1);
        assert_eq!(faults(&bad).len(), 1, "without {name}={value}: {:?}", faults(&bad));
    }
    for name in MUST_BE_SET {
        let bad = good.replacen(&format!("{name}=1\n"), &format!("{name}=\n"), 1);
        assert_eq!(faults(&bad).len(), 1, "without {name}: {:?}", faults(&bad));
    }
    for name in MUST_NOT_HAVE {
        let bad = good.replacen("[Service]\n", &format!("[Service]\n{name}=yes\n"), 1);
        assert_eq!(faults(&bad).len(), 1, "with {name}: {:?}", faults(&bad));
    }
    assert_eq!(faults("[Unit]\nnonsense\n").len(), 1);
}
