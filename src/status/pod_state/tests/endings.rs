//! What a status says of how containers and pods ended.

use super::*;
use crate::pod::state::{Failed, FailedReason};

#[test]
fn a_pod_that_was_ended_says_why() {
    let pod = pod_with("p", "u", "Always", &["a"]);
    let observed = Observed {
        sandboxes: vec![sandbox(0, false, &[])],
        containers: vec![container("a", 0, exited(137))],
    };
    let failed = Failed { reason: FailedReason::DeadlineExceeded, message: "too long".into() };
    let plan = Plan { failed: Some(failed), ..Plan::default() };
    let status = pod_status(&pod, &observed, &plan, &Verdicts::default(), None, &[], at(200));
    let said = [status.phase, status.reason, status.message].map(Option::unwrap_or_default);
    assert_eq!(said, ["Failed", "DeadlineExceeded", "too long"]);
    let ready = status.conditions.unwrap().into_iter().find(|c| c.type_ == "Ready").unwrap();
    assert_eq!((ready.status.as_str(), ready.reason.as_deref()), ("False", Some("PodFailed")));
}

#[test]
fn termination_messages_are_shown_and_limited() {
    let names = ["a", "b", "c", "d", "e", "f"];
    let pod = pod_with("p", "u", "Never", &names);
    let last = |name: &str, message: &str| {
        let ContainerState::Exited(exit) = exited(1) else { panic!("an exit") };
        container(name, 0, ContainerState::Exited(Exit { message: message.into(), ..exit }))
    };
    let mut found: Vec<_> = names[1..].iter().map(|name| last(name, "short")).collect();
    found.push(last("a", &"x".repeat(4096)));
    let statuses = status(&pod, found, &[]).container_statuses.unwrap();
    let messages: Vec<_> = statuses
        .iter()
        .map(|status| status.state.as_ref().unwrap().terminated.as_ref().unwrap().message.clone().unwrap())
        .collect();
    assert_eq!(messages[0].len(), 2048, "a sixth of 12 KiB");
    assert!(messages[1..].iter().all(|message| message == "short"));
}
