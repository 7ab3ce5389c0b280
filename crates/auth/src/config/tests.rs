use super::*;

fn check(settings: &[(&str, &str)]) -> Result<Settings, String> {
    let mut config = AuthConfig::default();
    settings.iter().for_each(|(key, value)| assert!(config.set(key, value), "{key}"));
    config.check().map_err(|error| error.to_string())
}

fn refused(settings: &[(&str, &str)], expected: &str) {
    let error = check(settings).unwrap_err();
    assert!(error.contains(expected), "{settings:?}: {error}");
}

const ON: (&str, &str) = ("authenticationEnabled", "true");
const BOTH_ON: [(&str, &str); 2] = [ON, ("authorizationEnabled", "true")];

#[test]
fn classes_of_rocketmq_are_known_by_name() {
    let class = |name: &str| format!("org.apache.rocketmq.{name}");
    for (key, name) in [
        ("authenticationProvider", "auth.authentication.provider.DefaultAuthenticationProvider"),
        (
            "authenticationMetadataProvider",
            "auth.authentication.provider.LocalAuthenticationMetadataProvider",
        ),
        ("authenticationMetadataProvider", "proxy.auth.ProxyAuthenticationMetadataProvider"),
        ("authenticationStrategy", "auth.authentication.strategy.StatelessAuthenticationStrategy"),
        ("authenticationStrategy", "auth.authentication.strategy.StatefulAuthenticationStrategy"),
        ("authorizationProvider", "auth.authorization.provider.DefaultAuthorizationProvider"),
        ("authorizationMetadataProvider", "auth.authorization.provider.LocalAuthorizationMetadataProvider"),
        ("authorizationMetadataProvider", "proxy.auth.ProxyAuthorizationMetadataProvider"),
        ("authorizationStrategy", "auth.authorization.strategy.StatelessAuthorizationStrategy"),
        ("authorizationStrategy", "auth.authorization.strategy.StatefulAuthorizationStrategy"),
    ] {
        check(&[&BOTH_ON[..], &[(key, &class(name))]].concat()).unwrap();
        let text = format!("{key} names the class com.example.Mine, which does not exist here");
        refused(&[&BOTH_ON[..], &[(key, "com.example.Mine")]].concat(), &text);
    }
    check(&[("authenticationProvider", "com.example.Mine")]).unwrap();
    refused(&[("authenticationMetadataProvider", "com.example.Mine")], "com.example.Mine");
}

#[test]
fn settings_that_contradict_each_other_stop_the_start() {
    refused(&[("authorizationEnabled", "true")], "authorizationEnabled needs authenticationEnabled");
    refused(&[ON, ("aclEnable", "true")], "are both on");
    refused(&[("authorizationEnabled", "true"), ("aclEnable", "true")], "are both on");
    assert!(check(&[("aclEnable", "TRUE")]).unwrap().is_plain);
}

#[test]
fn only_the_word_false_turns_users_off() {
    for key in [
        "authenticationEnabled",
        "authorizationEnabled",
        "authorizationStrict",
        "migrateAuthFromV1Enabled",
        "aclEnable",
    ] {
        for word in ["flase", "off", "no", "n", "none", "0", "disable", "f", "on", "1"] {
            refused(&[(key, word)], &format!("{key} is {word:?}, expected true or false"));
        }
        for word in ["", "false", "FALSE"] {
            check(&[(key, word)]).unwrap();
        }
    }
}

#[test]
fn wrong_values_are_named_without_their_secrets() {
    refused(&[("authenticationEnabled", "yes")], "authenticationEnabled is \"yes\", expected true or false");
    let error = check(&[("initAuthenticationUser", "{\"username\":secret")]).unwrap_err();
    assert_eq!(error, "initAuthenticationUser is not JSON with the members username and password");
    refused(
        &[("innerClientAuthenticationCredentials", "[]")],
        "innerClientAuthenticationCredentials is not JSON",
    );
}

#[test]
fn every_setting_of_the_table_can_be_set_and_read() {
    let mut config = AuthConfig::default();
    for key in AuthConfig::names() {
        assert!(["false", ""].contains(&&*config.get(key)), "{key}");
        assert!(config.set(key, " 7 "));
    }
    let is_secret = |key: &&str| config.get(key) == "***";
    let secrets: Vec<_> = AuthConfig::names().filter(is_secret).collect();
    assert_eq!(secrets, ["initAuthenticationUser", "innerClientAuthenticationCredentials"]);
    assert!(AuthConfig::names().all(|key| is_secret(&key) || config.get(key) == "7"));
    assert!(!config.set("authenticationEnable", "true"));
}

#[test]
fn providers_decide_what_is_kept() {
    let settings = check(&BOTH_ON).unwrap();
    assert_eq!(settings.authentication, Switch::WithoutProvider);
    assert_eq!(settings.authorization, Switch::WithoutProvider);
    assert!(!settings.keeps_users && !settings.keeps_acls && !settings.is_strict);
    assert!(check(&[("authorizationStrict", "true")]).unwrap().is_strict);
}
