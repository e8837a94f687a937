//! Pods that lack ConfigMaps or Secrets.

use super::*;

fn lack(reason: &str) -> Waiting {
    Waiting { reason: reason.into(), message: "configmap \"c\" not found".into() }
}

#[test]
fn nothing_is_tried_for_what_is_missing_and_what_runs_runs_on() {
    let pod = pod_with("p", "u", "Always", &["main", "side"]);
    let up = || vec![sandbox("u", 0, true)];
    let runs = |name| container("u", 0, name, 0, running());
    let ended = |name| container("u", 0, name, 0, exited(1, 99));
    let old = || vec![container("old", 0, "main", 0, running())];
    let env = |names: &[&str]| Lacks {
        volumes: None,
        env: names.iter().map(|name| ((*name).to_owned(), lack("CreateContainerConfigError"))).collect(),
    };
    let volumes = || Lacks { volumes: Some(lack("FailedMount")), env: BTreeMap::new() };
    // What is observed; what is missing; the steps; and who waits, and why.
    type Case<'a> = (&'a str, Vec<Sandbox>, Vec<Container>, Lacks, &'a [&'a str], &'a [&'a str]);
    let cases: [Case<'_>; 8] = [
        ("no volumes", vec![], vec![], volumes(), &[], &["main ContainerCreating", "side ContainerCreating"]),
        ("volumes of a pod that runs", up(), vec![runs("main"), runs("side")], volumes(), &[], &[]),
        (
            "a restart",
            up(),
            vec![ended("main"), runs("side")],
            volumes(),
            &["start 0 #1 in u-s0 after 1"],
            &[],
        ),
        (
            "no environment",
            vec![],
            vec![],
            env(&["main", "side"]),
            &[],
            &["main CreateContainerConfigError", "side CreateContainerConfigError"],
        ),
        (
            "for one of them",
            vec![],
            vec![],
            env(&["main"]),
            &["create-sandbox 0"],
            &["main CreateContainerConfigError"],
        ),
        (
            "and the other starts",
            up(),
            vec![],
            env(&["main"]),
            &["start 1 #0 in u-s0 after 0"],
            &["main CreateContainerConfigError"],
        ),
        (
            "the predecessor runs on",
            vec![sandbox("old", 0, true)],
            old(),
            volumes(),
            &[],
            &["main ContainerCreating", "side ContainerCreating"],
        ),
        ("nothing is missing", vec![], vec![], Lacks::default(), &["create-sandbox 0"], &[]),
    ];
    for (name, sandboxes, containers, lacks, steps, waits) in cases {
        let inputs = Inputs { lacks, ..Inputs::default() };
        let (want, observed) = (Want::Run(Arc::new(pod.clone())), Observed { sandboxes, containers });
        let plan = plan_pod(&inputs.situation(&want, &observed));
        assert_eq!(words(&plan), steps, "{name}");
        let waiting: Vec<_> =
            plan.waiting.iter().map(|(name, why)| format!("{name} {}", why.reason)).collect();
        assert_eq!(waiting, waits, "{name}");
        assert!(steps != [""; 0] || plan.wake_in.is_none(), "{name}: nobody looks before he is told");
    }
}
