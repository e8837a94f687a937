//! The environment of a container, and `$(VAR)` in it, in commands and in arguments.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, ResourceFieldSelector};

use super::finding::Finding;
use super::object::references::variable_reference;
use super::object::{ObjectKey, ObjectKind, ObjectValue, PodObjects};
use super::validate::names::not_env_name;
use crate::text::excerpt::quoted;

/// Replaces `$(NAME)` by the value of `NAME`. `$$` is a dollar sign; a name without a value stays as written.
pub(crate) fn expand<'v>(input: &str, lookup: impl Fn(&str) -> Option<&'v str>) -> String {
    let mut output = String::with_capacity(input.len());
    let mut rest = input;
    while let Some(dollar) = rest.find('$') {
        output.push_str(&rest[..dollar]);
        rest = &rest[dollar + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            output.push('$');
            rest = after;
            continue;
        }
        let reference = rest.strip_prefix('(').and_then(|inside| inside.split_once(')'));
        match reference {
            Some((name, after)) => {
                match lookup(name) {
                    Some(value) => output.push_str(value),
                    None => {
                        output.push_str("$(");
                        output.push_str(name);
                        output.push(')');
                    }
                }
                rest = after;
            }
            None => output.push('$'),
        }
    }
    output.push_str(rest);
    output
}

/// The same for what must not stay as written: every name must have a value.
///
/// # Errors
/// Names the first variable that has none.
pub(crate) fn expand_all(input: &str, env: &[(String, String)]) -> Result<String, String> {
    let missing = std::cell::RefCell::new(None);
    let text = expand(input, |name| {
        let value = value_of(env, name);
        if value.is_none() {
            missing.borrow_mut().get_or_insert_with(|| format!("missing value for {}", quoted(name)));
        }
        value
    });
    missing.into_inner().map_or(Ok(text), Err)
}

/// Variables with their values, which may be secret.
pub(crate) type Variables = Vec<(String, String)>;

/// Keys of an object that give no variable, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SkippedKeys {
    /// The object.
    pub(crate) object: ObjectKey,
    /// The keys, with the prefix.
    pub(crate) keys: Vec<String>,
}

/// The variables of a container's `envFrom`, each name once: of a name in two objects the last value counts.
///
/// # Errors
/// For an object that is not there and must be.
pub(crate) fn env_from(
    container: &Container,
    namespace: &str,
    objects: &PodObjects,
) -> Result<(Variables, Vec<SkippedKeys>), String> {
    let (mut env, mut skipped) = (BTreeMap::new(), Vec::new());
    for source in container.env_from.iter().flatten() {
        let prefix = source.prefix.as_deref().unwrap_or_default();
        let (kind, name, optional) = match (&source.config_map_ref, &source.secret_ref) {
            (Some(reference), _) => (ObjectKind::ConfigMap, &reference.name, reference.optional),
            (None, Some(reference)) => (ObjectKind::Secret, &reference.name, reference.optional),
            (None, None) => continue,
        };
        let key = ObjectKey::new(kind, namespace, name);
        let object = match objects.get(&key) {
            Ok(object) => object,
            Err(_) if optional == Some(true) => continue,
            Err(reason) => return Err(reason),
        };
        let mut unusable = Vec::new();
        for (name, value) in &object.data {
            let name = format!("{prefix}{name}");
            match text_of(value).filter(|_| not_env_name(&name).is_none()) {
                Some(text) => drop(env.insert(name, text.to_owned())),
                None => unusable.push(name),
            }
        }
        if !unusable.is_empty() {
            skipped.push(SkippedKeys { object: key, keys: unusable });
        }
    }
    Ok((env.into_iter().collect(), skipped))
}

/// The value of a variable that refers to an object, as [`variable_reference`] gives it; none if it may be missing and is.
///
/// # Errors
/// For an object or a key that is not there and must be.
pub(crate) fn object_variable(
    (kind, name, key, optional): (ObjectKind, &str, &str, bool),
    namespace: &str,
    objects: &PodObjects,
) -> Result<Option<String>, String> {
    let id = ObjectKey::new(kind, namespace, name);
    let found = objects
        .get(&id)
        .and_then(|object| object.data.get(key).ok_or_else(|| format!("couldn't find key {key:?} in {id}")));
    match found {
        Ok(value) => {
            let unusable = || format!("key {key:?} in {id} is no text, which a variable must be");
            text_of(value).map(|text| Some(text.to_owned())).ok_or_else(unusable)
        }
        Err(_) if optional => Ok(None),
        Err(reason) => Err(reason),
    }
}

/// The value as a variable can have it.
fn text_of(value: &ObjectValue) -> Option<&str> {
    std::str::from_utf8(value.bytes()).ok().filter(|text| !text.contains('\0'))
}

/// The variables of a container in order, each name once: of a name written twice the last value counts.
///
/// `env` are those of `envFrom`. A value may refer to variables that stand before it. What `field` gives for a `fieldRef`,
/// `resource` for a `resourceFieldRef` and `object` for a key of an object is not expanded; a variable for which `object`
/// gives none is left out.
pub(crate) fn container_env(
    container: &Container,
    mut env: Variables,
    field: impl Fn(&str) -> Option<String>,
    resource: impl Fn(&ResourceFieldSelector) -> Result<String, Finding>,
    object: impl Fn((ObjectKind, &str, &str, bool)) -> Result<Option<String>, String>,
) -> Result<Variables, Finding> {
    for (index, variable) in container.env.iter().flatten().enumerate() {
        let written = variable.value.as_deref().filter(|value| !value.is_empty());
        let value = match (written, &variable.value_from) {
            (Some(text), _) => expand(text, |name| value_of(&env, name)),
            (None, None) => String::new(),
            (None, Some(source)) => {
                let path = format!("env[{index}].valueFrom");
                match (&source.field_ref, &source.resource_field_ref, variable_reference(source)) {
                    (Some(reference), ..) => field(&reference.field_path).ok_or_else(|| {
                        let reason = format!("{} has no value", quoted(&reference.field_path));
                        Finding::new(format!("{path}.fieldRef.fieldPath"), reason)
                    })?,
                    (None, Some(reference), _) => resource(reference).map_err(|finding| {
                        Finding::new(format!("{path}.{}", finding.field), finding.reason)
                    })?,
                    (None, None, Some(reference)) => match object(reference) {
                        Ok(Some(value)) => value,
                        Ok(None) => continue,
                        // As kubelet says it.
                        Err(reason) => return Err(Finding::whole(reason)),
                    },
                    (None, None, None) => return Err(Finding::new(path, "is not supported")),
                }
            }
        };
        match env.iter_mut().find(|(name, _)| *name == variable.name) {
            Some((_, old)) => *old = value,
            None => env.push((variable.name.clone(), value)),
        }
    }
    Ok(env)
}

/// The value of a variable of [`container_env`].
pub(crate) fn value_of<'v>(env: &'v [(String, String)], name: &str) -> Option<&'v str> {
    env.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::pod::object::testing::{object, objects};

    #[test]
    fn expansion() {
        let env = [("A", "one"), ("B", "$(A)"), ("EMPTY", ""), ("A-B.c", "odd")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let table = [
            ("", ""),
            ("plain", "plain"),
            ("$(A)", "one"),
            ("x$(A)y$(A)z", "xoneyonez"),
            ("$(B)", "$(A)"),
            ("$(EMPTY)", ""),
            ("$(A-B.c)", "odd"),
            ("$(NONE)", "$(NONE)"),
            ("$()", "$()"),
            ("$$", "$"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$one"),
            ("$$$$(A)", "$$(A)"),
            ("$", "$"),
            ("a$", "a$"),
            ("$A", "$A"),
            ("$(A", "$(A"),
            ("$(A$(B)", "$(A$(B)"),
            ("$($(A))", "$($(A))"),
            ("${A}", "${A}"),
            ("$ü$(A)", "$üone"),
            ("$(A)$", "one$"),
            ("$(ü)", "$(ü)"),
        ];
        for (input, want) in table {
            assert_eq!(expand(input, |name| value_of(&env, name)), want, "{input}");
        }
    }

    #[test]
    fn expansion_of_everything() {
        let env = [("A".to_owned(), "one".to_owned()), ("EMPTY".to_owned(), String::new())];
        let table = [
            ("$(A)/x", Ok("one/x")),
            ("$(EMPTY)", Ok("")),
            ("$$(NONE)", Ok("$(NONE)")),
            ("$(A)/$(NONE)/$(OTHER)", Err("missing value for \"NONE\"")),
        ];
        for (input, want) in table {
            assert_eq!(expand_all(input, &env).as_deref().map_err(String::as_str), want, "{input}");
        }
    }

    fn env(list: Value) -> Result<Vec<(String, String)>, String> {
        let container: Container = serde_json::from_value(json!({ "env": list })).unwrap();
        let field = |path: &str| (path == "metadata.name").then(|| "$(A)-pod".to_owned());
        let resource = |reference: &ResourceFieldSelector| match reference.resource.as_str() {
            "limits.cpu" => Ok("$(A)4".to_owned()),
            _ => Err(Finding::new("resourceFieldRef.resource", "no such thing")),
        };
        let object = |(kind, name, key, optional): (ObjectKind, &str, &str, bool)| match optional {
            true => Ok(None),
            false => Ok(Some(format!("$(A)-{}-{name}-{key}", kind.as_str()))),
        };
        let from = vec![("A".to_owned(), "from".to_owned()), ("F".to_owned(), "kept".to_owned())];
        let env = container_env(&container, from, field, resource, object);
        let mut env = env.map_err(|finding| finding.to_string())?;
        env.retain(|(name, _)| name != "F");
        Ok(env)
    }

    #[test]
    fn variables_of_objects() {
        let all = objects(&[
            object(ObjectKind::ConfigMap, "c", &[("a", "1"), ("b.c", "2")]),
            object(ObjectKind::Secret, "s", &[("a", "x"), ("nul", "\0")]),
        ]);
        let from = |list: Value| {
            let container: Container = serde_json::from_value(json!({ "envFrom": list })).unwrap();
            env_from(&container, "default", &all).map(|(env, skipped)| {
                let env: Vec<_> = env.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
                let skipped: Vec<_> =
                    skipped.iter().map(|s| format!("{} {}", s.object, s.keys.join(","))).collect();
                (env.join(" "), skipped.join(" "))
            })
        };
        let (c, s) = (json!({"configMapRef": {"name": "c"}}), json!({"secretRef": {"name": "s"}}));
        let rows = [
            (json!([c]), "a=1 b.c=2", ""),
            (json!([c, s]), "a=x b.c=2", "Secret default/s nul"),
            (json!([s, c]), "a=1 b.c=2", "Secret default/s nul"),
            (json!([{"prefix": "P_", "configMapRef": {"name": "c"}}, c]), "P_a=1 P_b.c=2 a=1 b.c=2", ""),
            (json!([{"prefix": "=", "configMapRef": {"name": "c"}}]), "", "ConfigMap default/c =a,=b.c"),
            (json!([{"configMapRef": {"name": "none", "optional": true}}]), "", ""),
        ];
        for (list, env, skipped) in rows {
            assert_eq!(from(list.clone()), Ok((env.to_owned(), skipped.to_owned())), "{list}");
        }
        assert!(from(json!([{"configMapRef": {"name": "none"}}])).unwrap_err().contains("not found"));
        let nul = object_variable((ObjectKind::Secret, "s", "nul", false), "default", &all);
        assert_eq!(nul.unwrap_err(), "key \"nul\" in Secret default/s is no text, which a variable must be");
    }

    #[test]
    fn variables_in_order() {
        let pairs = |list: &[(&str, &str)]| {
            Ok(list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
        };
        let name = json!({"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}});
        let table = [
            (
                json!([{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)$(C)"}, {"name": "C", "value": "3"}]),
                pairs(&[("A", "1"), ("B", "1$(C)"), ("C", "3")]),
            ),
            (json!([{"name": "A"}, {"name": "B", "value": ""}]), pairs(&[("A", ""), ("B", "")])),
            (json!([{"name": "A", "value": "1"}, {"name": "A", "value": "$(A)2"}]), pairs(&[("A", "12")])),
            (
                json!([{"name": "A", "value": "1"}, name, {"name": "M", "value": "$(N)"}]),
                pairs(&[("A", "1"), ("N", "$(A)-pod"), ("M", "$(A)-pod")]),
            ),
            (
                json!([{"name": "A", "value": "1"}, {"name": "L", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}]),
                pairs(&[("A", "1"), ("L", "$(A)4")]),
            ),
            (
                json!([{"name": "L", "valueFrom": {"resourceFieldRef": {"resource": "x"}}}]),
                Err("env[0].valueFrom.resourceFieldRef.resource: no such thing".to_owned()),
            ),
        ];
        for (list, want) in table {
            assert_eq!(env(list.clone()), want, "{list}");
        }
    }

    #[test]
    fn what_has_no_value_is_named() {
        let unknown =
            json!([{"name": "A"}, {"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "spec.x"}}}]);
        assert_eq!(
            env(unknown),
            Err("env[1].valueFrom.fieldRef.fieldPath: \"spec.x\" has no value".to_owned())
        );
        let file = json!([{"name": "A", "valueFrom": {}}]);
        assert_eq!(env(file), Err("env[0].valueFrom: is not supported".to_owned()));
    }
}
