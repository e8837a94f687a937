//! Manifests for the tests: the small ones are written here, the telling ones lie in `tests/fixtures`.

use crate::rig::{BUSYBOX, Rig};

/// A web server on the pod network with a host port.
pub(crate) const WEB: &str = include_str!("../fixtures/web.yaml");
/// A web server on the node's network, in another namespace.
pub(crate) const HOST_NETWORK: &str = include_str!("../fixtures/host-network.yaml");

/// A pod with one container `main` that runs a shell script.
pub(crate) fn script(name: &str, script: &str) -> String {
    pod(name, "", script)
}

/// A pod that does nothing, for as long as it is let.
pub(crate) fn idle(name: &str) -> String {
    script(name, IDLE)
}

/// Sleeps, and ends at once when asked to.
pub(crate) const IDLE: &str = "trap 'exit 0' TERM; while :; do sleep 1000 & wait $!; done";

/// The same with more fields of the specification, each a line as `field: value`.
pub(crate) fn pod(name: &str, spec: &str, script: &str) -> String {
    let spec: String = spec.lines().map(|line| format!("  {line}\n")).collect();
    let script: String = script.lines().map(|line| format!("        {line}\n")).collect();
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  terminationGracePeriodSeconds: 1\n{spec}  \
         containers:\n  - name: main\n    image: {BUSYBOX}\n    command:\n    - sh\n    - -c\n    - |\n{script}"
    )
}

/// A pod that tells in `journal`, a file that it shares with the test, when instance `instance` starts, is asked
/// to end, and ends a second later. A lock, which a dead process gives up, shows two that run at the same time.
pub(crate) fn journalled(rig: &Rig, name: &str, instance: &str) -> String {
    let dir = rig.dir().join("journal");
    std::fs::create_dir_all(&dir).expect("create the journal's directory");
    let script = format!(
        "trap 'echo asked {instance} >> /journal/{name}; sleep 1; echo end {instance} >> /journal/{name}; exit 0' TERM\n\
         echo start {instance} >> /journal/{name}\n\
         while :; do sleep 1000 & wait $!; done"
    );
    let text = pod(name, &format!("volumes: [{{name: j, hostPath: {{path: {}}}}}]", dir.display()), &script);
    let text = text.replace("terminationGracePeriodSeconds: 1", "terminationGracePeriodSeconds: 20");
    let text = text.replace("    - sh\n", &format!("    - hold\n    - /journal/{name}.lock\n    - sh\n"));
    text.replace("    command:", "    volumeMounts: [{name: j, mountPath: /journal}]\n    command:")
}

/// What a [`journalled`] pod told.
pub(crate) fn journal(rig: &Rig, name: &str) -> Vec<String> {
    let met = rig.dir().join("journal").join(format!("{name}.lock.met"));
    assert!(!met.exists(), "two containers of {name} ran at the same time\n{}", rig.report());
    let text = std::fs::read_to_string(rig.dir().join("journal").join(name)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}
