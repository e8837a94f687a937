//! The names of the runtime's handlers, from its answer to `Status`. Pure.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::proto::StatusResponse;

/// The part of containerd's configuration that names its handlers.
#[derive(Deserialize)]
struct Config {
    containerd: Containerd,
}

#[derive(Deserialize)]
struct Containerd {
    runtimes: BTreeMap<String, IgnoredAny>,
}

/// The handlers by name, sorted; empty if the runtime does not tell. The default one has no name and is left out.
pub(super) fn handlers(answer: &StatusResponse) -> Vec<String> {
    let mut names: Vec<String> = answer.runtime_handlers.iter().map(|handler| handler.name.clone()).collect();
    if names.is_empty() {
        // containerd tells them itself since 2.0; before, its configuration does.
        let config = answer.info.get("config").and_then(|text| serde_json::from_str::<Config>(text).ok());
        names = config.map(|config| config.containerd.runtimes.into_keys().collect()).unwrap_or_default();
    }
    names.retain(|name| !name.is_empty());
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::cri::proto::RuntimeHandler;

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
}
