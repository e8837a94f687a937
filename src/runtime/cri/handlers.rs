//! The names of the runtime's handlers, from its answer to `Status`. Pure.

use super::containerd_config::ContainerdConfig;
use super::proto::StatusResponse;

/// The handlers by name, sorted; empty if the runtime does not tell. The default one has no name and is left out.
pub(super) fn handlers(answer: &StatusResponse) -> Vec<String> {
    let mut names: Vec<String> = answer.runtime_handlers.iter().map(|handler| handler.name.clone()).collect();
    if names.is_empty() {
        // containerd tells them itself since 2.0; before, its configuration does.
        names.extend(ContainerdConfig::of(answer).into_iter().flat_map(ContainerdConfig::into_handlers));
    }
    names.retain(|name| !name.is_empty());
    names.sort();
    names.dedup();
    names
}

/// Whether a handler says that it can make mounts read-only with all below them; the default one has no name.
pub(super) fn recursive_read_only(answer: &StatusResponse, handler: &str) -> bool {
    let told = answer.runtime_handlers.iter().find(|told| told.name == handler);
    told.and_then(|told| told.features.as_ref()).is_some_and(|features| features.recursive_read_only_mounts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::cri::proto::{RuntimeHandler, RuntimeHandlerFeatures};

    #[test]
    fn from_either_kind_of_answer() {
        let told = |names: &[&str], config: Option<&str>| {
            let handler = |name: &&str| RuntimeHandler { name: (*name).into(), ..Default::default() };
            handlers(&StatusResponse {
                runtime_handlers: names.iter().map(handler).collect(),
                info: config.map(|text| ("config".to_owned(), text.to_owned())).into_iter().collect(),
                ..Default::default()
            })
        };
        let config =
            r#"{"containerd":{"snapshotter":"overlayfs","runtimes":{"runc":{"runtimeType":"x"},"kata":{}}}}"#;
        assert_eq!(told(&["runc", "", "gvisor"], Some(config)), ["gvisor", "runc"]);
        assert_eq!(told(&[], Some(config)), ["kata", "runc"]);
        for other in [None, Some("{}"), Some("not JSON")] {
            assert_eq!(told(&[], other), Vec::<String>::new(), "{other:?}");
        }
    }
    #[test]
    fn features_of_a_handler() {
        let handler = |name: &str, recursive_read_only_mounts| RuntimeHandler {
            name: name.into(),
            features: Some(RuntimeHandlerFeatures { recursive_read_only_mounts, ..Default::default() }),
        };
        let answer = StatusResponse {
            runtime_handlers: vec![handler("", true), handler("kata", false)],
            ..Default::default()
        };
        assert!(recursive_read_only(&answer, ""));
        assert!(!recursive_read_only(&answer, "kata") && !recursive_read_only(&answer, "none"));
        assert!(!recursive_read_only(&StatusResponse::default(), ""));
    }
}
