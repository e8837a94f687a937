//! Configurations, answers, and how long they hold.

use super::*;

const HEAD: &str = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\n";
const V1: &str = "credentialprovider.kubelet.k8s.io/v1";

fn config(provider: &str) -> String {
    format!("{HEAD}providers:\n- {provider}\n")
}

fn provider() -> Provider {
    let item = format!(
        "{{name: p, apiVersion: {V1}, matchImages: ['*.example.com', 'r.io:5000/team'], defaultCacheDuration: 1m, args: [get], env: [{{name: A, value: hunter2}}]}}"
    );
    parse_providers(&config(&item)).unwrap().remove(0)
}

#[test]
fn a_configuration() {
    let provider = provider();
    assert_eq!(provider.name, "p");
    assert_eq!(provider.args, ["get"]);
    assert_eq!(provider.env, [("A".to_owned(), "hunter2".to_owned())]);
    assert_eq!(provider.default_cache, Duration::from_secs(60));
    assert!(!format!("{provider:?}").contains("hunter2"), "{provider:?}");
    for (repository, expect) in [
        ("a.example.com/x", true),
        ("a.b.example.com/x", false),
        ("r.io:5000/team/x", true),
        ("r.io/team/x", false),
    ] {
        assert_eq!(provider.is_for(repository), expect, "{repository}");
    }
    let json = r#"{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "CredentialProviderConfig", "providers": [
        {"name": "q", "apiVersion": "credentialprovider.kubelet.k8s.io/v1beta1", "matchImages": ["x.io"], "defaultCacheDuration": "0s"}]}"#;
    assert_eq!(parse_providers(json).unwrap()[0].api_version, "credentialprovider.kubelet.k8s.io/v1beta1");
}

#[test]
fn configurations_that_are_refused() {
    let item = |more: &str| {
        config(&format!("{{name: p, apiVersion: {V1}, matchImages: [x.io], defaultCacheDuration: 1m{more}}}"))
    };
    let rows = [
        ("a: [".to_owned(), "did not find"),
        (String::new(), "must hold one document, a CredentialProviderConfig"),
        (format!("{HEAD}---\n{HEAD}"), "must hold one document, a CredentialProviderConfig"),
        (
            "apiVersion: v1\nkind: Pod\n".to_owned(),
            "apiVersion is \"v1\", it must be kubelet.config.k8s.io/v1 or",
        ),
        (HEAD.replace("ProviderConfig", "X"), "kind is \"CredentialX\", it must be CredentialProviderConfig"),
        (HEAD.to_owned(), "providers: at least one is required"),
        (item(", nam: x"), "providers[0].nam: unknown field `nam`"),
        (item(", name: a"), "written twice: providers[0].name"),
        (item("").replace("name: p", "name: a/b"), "providers[0].name: must be the name of a program"),
        (item("").replace("name: p", "name: .."), "providers[0].name: must be the name of a program"),
        (item("").replace(V1, "v1"), "providers[0].apiVersion: must be credentialprovider.kubelet.k8s.io/v1"),
        (item("").replace("x.io", ""), "providers[0].matchImages: at least one is required"),
        (item("").replace("1m", "soon"), "providers[0].defaultCacheDuration: must be a duration"),
        (item("").replace("1m", "-1m"), "providers[0].defaultCacheDuration: must be a duration"),
        (item(", args: x"), "providers[0].args: invalid type"),
        (item(", env: [{name: x}]"), "providers[0].env[0]: missing field `value`"),
        (
            item(", tokenAttributes: {serviceAccountTokenAudience: x}"),
            "providers[0].tokenAttributes: tokens of service accounts need an API server",
        ),
        (
            format!("{}{}", item(""), item("").rsplit_once("providers:\n").unwrap().1),
            "the provider p is there twice",
        ),
    ];
    for (text, expect) in rows {
        let error = parse_providers(&text).expect_err(&text).to_string();
        assert!(error.starts_with(expect), "{text}\n{error}\n{expect}");
    }
}

#[test]
fn words_with_a_plugin() {
    let provider = provider();
    let request: Value = serde_json::from_str(&provider.request("a.example.com/x")).unwrap();
    let expect = json!({"kind": "CredentialProviderRequest", "apiVersion": V1, "image": "a.example.com/x"});
    assert_eq!(request, expect);

    let good = json!({
        "kind": "CredentialProviderResponse", "apiVersion": V1, "cacheKeyType": "Registry", "cacheDuration": "10s",
        "auth": {"*.example.com": {"username": "u", "password": "hunter2"}},
    });
    let answer = provider.answer(good.to_string().as_bytes()).unwrap();
    let expect = Credential::Basic { username: "u".into(), password: "hunter2".into() };
    assert_eq!(answer.keyring.lookup("a.example.com/x"), [expect]);
    assert!(!format!("{answer:?}").contains("hunter2"));

    let with = |field: &str, value: Value| {
        let mut changed = good.clone();
        changed[field] = value;
        changed.to_string()
    };
    let rows = [
        ("hunter2".to_owned(), "its answer is not a CredentialProviderResponse"),
        (String::new(), "its answer is not a CredentialProviderResponse"),
        (with("kind", json!("Pod")), "its answer is not a CredentialProviderResponse"),
        (with("auth", json!({"x": "hunter2"})), "its answer is not a CredentialProviderResponse"),
        (with("cacheDuration", json!("hunter2")), "its answer is not a CredentialProviderResponse"),
        (
            with("cacheKeyType", json!("hunter2")),
            "its answer has no cacheKeyType of Image, Registry or Global",
        ),
        (
            with("apiVersion", json!("v2")),
            "its answer is of apiVersion \"v2\", not credentialprovider.kubelet.k8s.io/v1",
        ),
    ];
    for (text, expect) in rows {
        assert_eq!(provider.answer(text.as_bytes()).expect_err(&text).to_string(), expect, "{text}");
    }
    assert!(provider.answer(with("auth", Value::Null).as_bytes()).is_ok(), "it may know nothing");
}

#[test]
fn answers_hold_for_what_and_as_long_as_they_say() {
    let provider = provider();
    let start = Instant::now();
    let asked = "a.example.com/x";
    let rows = [
        ("Image", Some("10s"), asked, 9, true),
        ("Image", Some("10s"), asked, 10, false),
        ("Image", Some("10s"), "a.example.com/y", 1, false),
        ("Registry", Some("10s"), "a.example.com/y", 1, true),
        ("Registry", Some("10s"), "b.example.com/y", 1, false),
        ("Global", Some("10s"), "b.example.com/y", 1, true),
        ("Global", Some("0s"), asked, 0, false),
        ("Global", Some("-1s"), asked, 0, false),
        ("Global", None, asked, 59, true),
        ("Global", None, asked, 60, false),
    ];
    for (scope, keep, repository, after, expect) in rows {
        let said = json!({
            "kind": "CredentialProviderResponse", "apiVersion": V1, "cacheKeyType": scope, "cacheDuration": keep,
        });
        let answer = provider.answer(said.to_string().as_bytes()).unwrap();
        let mut answers = Answers::default();
        answers.put(&provider, asked, &answer, start);
        let found = answers.get(repository, start + Duration::from_secs(after)).is_some();
        assert_eq!(found, expect, "{scope} {keep:?} for {repository} after {after} s");
        answers.put(&provider, "r.io:5000/team/z", &answer, start + Duration::from_secs(3600));
        assert!(answers.kept.len() <= 1, "what is over is forgotten");
    }
}
