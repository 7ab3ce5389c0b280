//! Settings without their secrets.

use std::collections::BTreeMap;

/// The settings with a mark in place of each secret: set, or the key of RocketMQ's examples.
#[must_use]
pub fn without_secrets(settings: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let may_be_secret = |key: &str, value: &str| {
        let (key, value) = (key.to_lowercase(), value.to_lowercase());
        let names =
            ["password", "secret", "credential", "accesskey", "token", "header", "initauthenticationuser"];
        names.iter().any(|name| key.contains(name))
            || ["password", "secret"].iter().any(|name| value.contains(name))
            || value.contains("://") && value.contains('@')
    };
    let hide = |(key, value): (String, String)| {
        let shown = match value.as_str() {
            "" | "true" | "false" => value,
            _ if !may_be_secret(&key, &value) => value,
            text if text.contains(EXAMPLE_KEY) => EXAMPLE.to_owned(),
            _ => SET.to_owned(),
        };
        (key, shown)
    };
    settings.into_iter().map(hide).collect()
}

/// Whether a value stands for a secret that is not shown.
pub fn is_hidden(value: &str) -> bool {
    [SET, EXAMPLE].contains(&value)
}

/// The secret key of RocketMQ's example files.
const EXAMPLE_KEY: &str = "12345678";
/// Text in place of a secret.
const SET: &str = "(set)";
/// Text in place of a secret that is the key of RocketMQ's example files.
pub(crate) const EXAMPLE: &str = "(key of the examples)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_kept() {
        let given = [
            (
                "innerClientAuthenticationCredentials",
                "{\"accessKey\":\"a\",\"secretKey\":\"planted-1\"}",
                "(set)",
            ),
            ("initAuthenticationUser", "{\"username\":\"a\",\"pass\":\"planted-2\"}", "(set)"),
            ("someText", "my Password is planted-3", "(set)"),
            ("metricsGrpcExporterHeader", "auth:planted-4", "(set)"),
            ("proxyUrl", "http://user:planted-5@host", "(set)"),
            ("secretKey", "12345678", EXAMPLE),
            ("tokenEnabled", "true", "true"),
            ("brokerName", "broker-a", "broker-a"),
        ];
        let settings = given.iter().map(|(key, value, _)| ((*key).to_owned(), (*value).to_owned())).collect();
        let kept = without_secrets(settings);
        given.iter().for_each(|(key, _, expected)| assert_eq!(kept[*key], *expected, "{key}"));
        assert!(!format!("{kept:?}").contains("planted"));
    }
}
