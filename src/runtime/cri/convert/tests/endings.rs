//! What a container carries for its end.

use k8s_openapi::api::core::v1::{ExecAction, Lifecycle, LifecycleHandler};

use super::*;
use crate::pod::hook::Hook;
use crate::pod::signal;
use crate::runtime::cri::proto::Signal;

#[test]
fn hook_and_signal_outlive_the_manifest() {
    let pod = pod("p", "u");
    let mut spec = pod.spec.containers[0].clone();
    let exec = ExecAction { command: Some(vec!["drain".into(), "\"now\"".into()]) };
    spec.lifecycle = Some(Lifecycle {
        pre_stop: Some(LifecycleHandler { exec: Some(exec), ..LifecycleHandler::default() }),
        stop_signal: Some("SIGRTMIN+3".into()),
        ..Lifecycle::default()
    });
    let config = container_config(&pod, &spec, Prepared::default());
    let handler = &config.annotations["io.kubernetes.container.preStopHandler"];
    assert_eq!(handler, r#"{"exec":{"command":["drain","\"now\""]}}"#);
    let hook = Hook::from_annotations(handler, None).unwrap();
    assert_eq!(hook, Hook::Exec(vec!["drain".into(), "\"now\"".into()]));
    assert_eq!(config.annotations["rkubelet.dev/stop-signal"], "SIGRTMIN+3");
    assert_eq!(config.stop_signal, Signal::Sigrtminplus3 as i32);

    spec.lifecycle = None;
    let config = container_config(&pod, &spec, Prepared::default());
    assert_eq!(config.stop_signal, Signal::RuntimeDefault as i32);
    assert!(!config.annotations.keys().any(|key| key.contains("Stop") || key.contains("stop")));
}

#[test]
fn cri_and_the_kernel_know_the_same_signals() {
    let named = (1..=65).filter_map(|number| Signal::try_from(number).ok()).map(|signal| {
        let name = signal.as_str_name().strip_prefix("SIGNAL_").unwrap();
        (signal, name.replace("PLUS", "+").replace("MINUS", "-"))
    });
    for (signal, name) in named {
        assert!(signal::number(&name).is_some(), "{name}");
        assert_eq!(cri_signal(&name), signal, "{name}");
    }
    assert_eq!(cri_signal("SIGNONE"), Signal::RuntimeDefault);
}
