//! The restart policy of a container, and its rules.

use k8s_openapi::api::core::v1::Container;

use super::findings::Findings;

const MAX_RULES: usize = 20;
const MAX_CODES: usize = 255;

/// Validates a container's own policy, which its rules need.
pub(super) fn validate_restart(container: &Container, path: &str, findings: &mut Findings) {
    let field = format!("{path}.restartPolicy");
    let rules = container.restart_policy_rules.as_deref().unwrap_or_default();
    match container.restart_policy.as_deref() {
        None if !rules.is_empty() => findings.add(&field, "must be set when there are restartPolicyRules"),
        // Empty is not the same as absent here: there is no default to take its place.
        Some("") => findings.add(&field, "must not be empty"),
        policy => findings.one_of(&field, policy, &["Always", "OnFailure", "Never"]),
    }
    let field = format!("{path}.restartPolicyRules");
    if rules.len() > MAX_RULES {
        findings.add(&field, format!("{} rules are more than {MAX_RULES}", rules.len()));
    }
    for (index, rule) in rules.iter().enumerate() {
        let field = format!("{field}[{index}]");
        required(findings, format!("{field}.action"), &rule.action, &["Restart", "RestartAllContainers"]);
        let Some(codes) = &rule.exit_codes else {
            findings.add(format_args!("{field}.exitCodes"), "must be set");
            continue;
        };
        required(findings, format!("{field}.exitCodes.operator"), &codes.operator, &["In", "NotIn"]);
        let count = codes.values.as_ref().map_or(0, Vec::len);
        if count > MAX_CODES {
            findings.add(
                format_args!("{field}.exitCodes.values"),
                format!("{count} values are more than {MAX_CODES}"),
            );
        }
    }
}

/// A word that has no default.
fn required(findings: &mut Findings, field: String, value: &str, words: &[&str]) {
    if value.is_empty() {
        findings.add(field, "must not be empty");
    } else {
        findings.one_of(field, Some(value), words);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn found(container: Value) -> Vec<String> {
        let mut findings = Findings::default();
        validate_restart(&serde_json::from_value(container).unwrap(), "c", &mut findings);
        findings.0.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn policies_and_rules_as_the_api_takes_them() {
        let codes = json!({"operator": "In", "values": [1]});
        let rule = json!({"action": "Restart", "exitCodes": codes});
        let with = |rules: Value| json!({"name": "c", "restartPolicy": "Never", "restartPolicyRules": rules});
        let many = |one: &Value, count| vec![one.clone(); count];
        let cases = [
            (json!({"name": "c"}), None),
            (json!({"name": "c", "restartPolicy": "OnFailure"}), None),
            (
                with(json!([rule, {"action": "RestartAllContainers", "exitCodes": {"operator": "NotIn"}}])),
                None,
            ),
            (with(json!(many(&rule, 20))), None),
            (json!({"name": "c", "restartPolicy": ""}), Some("c.restartPolicy: must not be empty")),
            (
                json!({"name": "c", "restartPolicy": "Sometimes"}),
                Some("c.restartPolicy: \"Sometimes\" is not one of Always, OnFailure, Never"),
            ),
            (
                json!({"name": "c", "restartPolicyRules": [rule]}),
                Some("c.restartPolicy: must be set when there are restartPolicyRules"),
            ),
            (with(json!(many(&rule, 21))), Some("c.restartPolicyRules: 21 rules are more than 20")),
            (
                with(json!([{"action": "Reboot", "exitCodes": codes}])),
                Some(
                    "c.restartPolicyRules[0].action: \"Reboot\" is not one of Restart, RestartAllContainers",
                ),
            ),
            (
                with(json!([{"action": "", "exitCodes": codes}])),
                Some("c.restartPolicyRules[0].action: must not be empty"),
            ),
            (
                with(json!([rule, {"action": "Restart"}])),
                Some("c.restartPolicyRules[1].exitCodes: must be set"),
            ),
            (
                with(json!([{"action": "Restart", "exitCodes": {"operator": "Not"}}])),
                Some("c.restartPolicyRules[0].exitCodes.operator: \"Not\" is not one of In, NotIn"),
            ),
            (
                with(
                    json!([{"action": "Restart", "exitCodes": {"operator": "In", "values": many(&json!(1), 256)}}]),
                ),
                Some("c.restartPolicyRules[0].exitCodes.values: 256 values are more than 255"),
            ),
        ];
        for (container, expect) in cases {
            assert_eq!(found(container.clone()), Vec::from_iter(expect), "{container}");
        }
    }
}
