//! Containers that are to be replaced though nothing is wrong with them.

use super::*;

#[test]
fn one_that_is_to_be_replaced_ends_within_its_grace_and_starts_anew_whatever_its_policy() {
    for policy in ["Always", "OnFailure", "Never"] {
        let pod = Arc::new(pod_with("p", "u", policy, &["main", "side"]));
        let want = Want::Run(pod);
        let inputs = Inputs { restarts: [ContainerId::from("u-main-0")].into(), ..Inputs::default() };
        let with = |main: Vec<Container>, inputs: &Inputs| {
            let mut containers = main;
            containers.push(container("u", 0, "side", 0, running()));
            let observed = Observed { sandboxes: vec![sandbox("u", 0, true)], containers };
            plan_pod(&inputs.situation(&want, &observed))
        };
        let main = |attempt, state| container("u", 0, "main", attempt, state);
        let plan = with(vec![main(0, running())], &inputs);
        assert_eq!(words(&plan), ["stop u-main-0@7"], "{policy}");
        // A later agent knows that it did not end by itself.
        assert_eq!(plan.killed, BTreeSet::from([ContainerId::from("u-main-0")]), "{policy}");
        for code in [0, 143] {
            let plan = with(vec![main(0, exited(code, 100))], &inputs);
            assert_eq!(words(&plan), ["start 0 #1 in u-s0 after 0"], "{policy} {code}");
        }
        let plan = with(vec![main(1, running()), main(0, exited(0, 100))], &inputs);
        assert_eq!(words(&plan), [""; 0], "{policy}: its successor is left alone");
        assert_eq!(words(&with(vec![main(0, running())], &Inputs::default())), [""; 0], "{policy}");
    }
}
