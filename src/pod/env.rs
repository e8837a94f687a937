//! The environment of a container, and `$(VAR)` in it, in commands and in arguments.

use k8s_openapi::api::core::v1::{Container, ResourceFieldSelector};

use super::finding::Finding;
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

/// The variables of a container in order, each name once: of a name written twice the last value counts.
///
/// A value may refer to variables that stand before it. What `field` gives for a `fieldRef`, and `resource` for
/// a `resourceFieldRef`, is not expanded.
pub(crate) fn container_env(
    container: &Container,
    field: impl Fn(&str) -> Option<String>,
    resource: impl Fn(&ResourceFieldSelector) -> Result<String, Finding>,
) -> Result<Vec<(String, String)>, Finding> {
    let mut env: Vec<(String, String)> = Vec::new();
    for (index, variable) in container.env.iter().flatten().enumerate() {
        let written = variable.value.as_deref().filter(|value| !value.is_empty());
        let value = match (written, &variable.value_from) {
            (Some(text), _) => expand(text, |name| value_of(&env, name)),
            (None, None) => String::new(),
            (None, Some(source)) => {
                let path = format!("env[{index}].valueFrom");
                match (&source.field_ref, &source.resource_field_ref) {
                    (Some(reference), _) => field(&reference.field_path).ok_or_else(|| {
                        let reason = format!("{} has no value", quoted(&reference.field_path));
                        Finding::new(format!("{path}.fieldRef.fieldPath"), reason)
                    })?,
                    (None, Some(reference)) => resource(reference).map_err(|finding| {
                        Finding::new(format!("{path}.{}", finding.field), finding.reason)
                    })?,
                    (None, None) => {
                        let reason = "only fieldRef and resourceFieldRef are supported";
                        return Err(Finding::new(path, reason));
                    }
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
        container_env(&container, field, resource).map_err(|finding| finding.to_string())
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
        let secret = json!([{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]);
        assert_eq!(
            env(secret),
            Err("env[0].valueFrom: only fieldRef and resourceFieldRef are supported".to_owned())
        );
    }
}
