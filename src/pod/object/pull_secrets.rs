//! The credentials for registries in the Secrets that `imagePullSecrets` names.

use super::decode::{DOCKER_CONFIG_JSON, DOCKERCFG};
use super::references::pull_secrets;
use super::{Object, PodObjects};
use crate::pod::Pod;
use crate::pod::image::keyring::{DockerFile, Keyring};

impl PodObjects {
    /// The credentials of a pod, and what is wrong with its Secrets. A Secret of another type holds none, as in kubelet.
    pub(crate) fn pull_credentials(&self, pod: &Pod) -> (Keyring, Vec<String>) {
        let (mut keyring, mut complaints) = (Keyring::default(), Vec::new());
        for key in pull_secrets(pod) {
            match self.get(&key).and_then(|secret| credentials(secret)) {
                Ok(found) => keyring.merge(&found),
                Err(reason) => complaints.push(format!("imagePullSecrets: {reason}")),
            }
        }
        (keyring, complaints)
    }
}

fn credentials(secret: &Object) -> Result<Keyring, String> {
    let held = [(DOCKER_CONFIG_JSON, DockerFile::ConfigJson), (DOCKERCFG, DockerFile::Dockercfg)];
    let held = held.into_iter().find(|((kind, _), _)| secret.secret_type.as_deref() == Some(kind));
    let unusable = |reason: &str| format!("secret {:?} {reason}", secret.key.name);
    let ((_, key), file) = held.ok_or_else(|| unusable("is of a type without credentials for a registry"))?;
    let text = secret.data.get(key).and_then(|value| std::str::from_utf8(value.bytes()).ok());
    let parsed = Keyring::parse(text.unwrap_or_default(), file);
    parsed.map(|(keyring, _)| keyring).map_err(|error| unusable(&format!("cannot be used: {error}")))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;
    use crate::pod::Source;
    use crate::pod::image::keyring::Credential;
    use crate::pod::object::decode::build;
    use crate::pod::object::testing::objects;
    use crate::pod::object::{ObjectKey, ObjectKind};
    use crate::pod::testing::pod;

    #[test]
    fn both_formats_count_and_the_rest_is_said() {
        let secret = |name: &str, kind: &str, key: &str, text: &str| {
            let data = BTreeMap::from([(key.to_owned(), text.as_bytes().to_vec().into())]);
            let key = ObjectKey::new(ObjectKind::Secret, "default", name);
            Arc::new(build(key, Source::File, data, BTreeMap::new(), false, Some(kind)))
        };
        let entry =
            |user: &str| format!("{{\"r.example\": {{\"username\": \"{user}\", \"password\": \"p\"}}}}");
        let all = objects(&[
            secret(
                "new",
                DOCKER_CONFIG_JSON.0,
                DOCKER_CONFIG_JSON.1,
                &format!("{{\"auths\": {}}}", entry("a")),
            ),
            secret("old", DOCKERCFG.0, DOCKERCFG.1, &entry("b")),
            secret("other", "Opaque", DOCKERCFG.1, &entry("c")),
        ]);
        let mut pod = pod("p", "u");
        let names = ["new", "old", "other", "none"].map(|name| serde_json::json!({"name": name}));
        pod.spec.image_pull_secrets = Some(serde_json::from_value(names.as_slice().into()).unwrap());
        let (keyring, complaints) = all.pull_credentials(&pod);
        let user = |name: &str| Credential::Basic { username: name.into(), password: "p".into() };
        assert_eq!(keyring.lookup("r.example/image"), [user("a"), user("b")]);
        assert_eq!(complaints.len(), 2, "{complaints:?}");
        assert!(complaints[0].contains("\"other\"") && complaints[1].contains("\"none\" not found"));
    }
}
