//! The settings as people read them, made from the property table.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::Ipv4Addr;

use super::{Config, Effect, PROPERTIES, Property, refused, unknown};

/// Returns the settings that have an effect here, sorted by name.
fn sorted() -> BTreeMap<&'static str, &'static Property> {
    PROPERTIES.iter().map(|property| (property.name, property)).collect()
}

fn effect(property: &Property) -> &'static str {
    match property.effect {
        Effect::Live => "at once",
        _ => "restart",
    }
}

/// The list of settings at the end of `vostok serve --help`.
pub fn settings_help() -> String {
    let mut text = "Settings of the file of -c, all with RocketMQ's names. Those with * can also be changed while the broker runs \
         (mqadmin updateBrokerConfig, request 25):\n\n"
        .to_owned();
    for (name, property) in sorted() {
        let mark = if property.effect == Effect::Restart { ' ' } else { '*' };
        let _ = writeln!(text, "  {mark} {name:<36} {}", property.doc);
    }
    text.push_str(
        "\nEvery other setting of RocketMQ 5.5.0 is accepted or refused with a reason: docs/settings.md",
    );
    text
}

/// Rules for reading values, in the text of `docs/settings.md`.
const VALUES: &str = "Values are read by these rules, at the start and by `vostok config lint FILE` alike; blanks around a value are ignored:\n\n\
- A switch is on for `true` in any case. It is off for `false`, `no`, `off`, `0`, an empty value and misspellings of `false`, as in RocketMQ;\n\
\x20 the log names all but `false`. Other words stop the start: RocketMQ takes `yes`, `on` and `1` for false without a word.\n\
- A switch that decides about users (`authenticationEnabled`, `authorizationEnabled`, `authorizationStrict`, `migrateAuthFromV1Enabled`, `aclEnable`)\n\
\x20 takes `true`, `false` or nothing. Every other word stops the start.\n\
- A number, size, list, word or address that cannot be read stops the start with its line, its value and what is expected. RocketMQ keeps\n\
\x20 the default without a word.\n\
- A number below its lower bound stops the start, too. A number above its upper bound counts as the bound, except a port or an id.\n\
- An empty value of a setting that is no switch counts as the default. The log names such values.\n\
- A variable that is left of a template, such as `${NAME}`, stops the start.\n";

/// The text of `docs/settings.md`.
pub fn page() -> String {
    let defaults = Config::new("(host name)", Ipv4Addr::LOCALHOST.into());
    let mut text = "# Settings of the broker\n\n[简体中文](settings.zh-CN.md)\n\n\
        Names and defaults are those of Apache RocketMQ 5.5.0 and a few of Vostok's own. They stand in the file given with `-c`, or are changed\n\
        while the broker runs with `mqadmin updateBrokerConfig`: where the table says *at once* the change counts at once, otherwise after the next\n\
        start, and until then getBrokerConfig lists the setting in `countsAfterRestart`. Paths, `bindAddress`, TLS, authentication, trusted proxies, and\n\
        the host, target and headers of metrics are changed in the file alone. A changed value goes to that file, or to `config/broker.properties` in the data directory of a broker that was\n\
        started without one. This page is made from the table the broker\n\
        itself uses.\n\n"
        .to_owned();
    text.push_str(VALUES);
    text.push_str(
        "\n\
        | setting | default | takes effect | what it does |\n|---|---|---|---|\n",
    );
    for (name, property) in sorted() {
        // Two defaults depend on the machine, so the page describes them in words.
        let default = match name {
            "brokerIP1" => "(address of the host)".to_owned(),
            _ => property.value(&defaults),
        };
        let _ = writeln!(
            text,
            "| `{name}` | {default} | {} | {} |",
            effect(property),
            property.doc.replace('|', "\\|")
        );
    }
    text.push_str("\n## Refused\n\nThe broker does not start with another value: ignoring it would weaken a promise.\n\n| setting | allowed | why |\n|---|---|---|\n");
    for (name, allowed, reason) in refused::rules() {
        let _ = writeln!(text, "| `{name}` | {} | {reason} |", allowed.join(", "));
    }
    text.push_str("\n## Without effect\n\nAccepted and kept, so that a file of RocketMQ's is taken as it is. The log names those an operator may miss.\n");
    for (reason, names) in unknown::by_reason() {
        let _ = writeln!(text, "\n{reason}: {}", names.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the page. `VOSTOK_WRITE_DOCS=1` writes the page after a change of the table.
    #[test]
    fn the_page_in_docs_is_made_from_the_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/settings.md");
        if std::env::var_os("VOSTOK_WRITE_DOCS").is_some() {
            std::fs::write(path, page()).unwrap();
        }
        let found = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            found == page(),
            "docs/settings.md is not what the table says; run this test with VOSTOK_WRITE_DOCS=1"
        );
    }

    /// Returns the facts of a page: each setting's name, default (or allowed values) and time of effect, then the
    /// sorted names without effect. They are sorted because the translated page groups them in the order of the
    /// English reasons.
    fn facts(page: &str) -> Vec<String> {
        let page = page.replace("立即", "at once").replace("重启后", "restart").replace('、', ", ");
        let page = page.replace("（本机地址）", "(address of the host)").replace("（主机名）", "(host name)");
        let row = |line: &str| {
            let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
            cells[..cells.len() - 1].join(" ")
        };
        let mut facts: Vec<String> = page.lines().filter(|line| line.starts_with("| `")).map(row).collect();
        let end = page.rsplit("\n## ").next().unwrap_or_default();
        let lists = end.lines().skip(3);
        let lists = lists.filter_map(|line| line.rsplit_once(": ").or_else(|| line.rsplit_once('：')));
        let mut names: Vec<String> =
            lists.flat_map(|(_, names)| names.split(", ").map(str::to_owned)).collect();
        names.sort_unstable();
        facts.extend(names);
        facts
    }

    #[test]
    fn the_chinese_page_has_the_same_settings() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/settings.zh-CN.md");
        assert_eq!(facts(&std::fs::read_to_string(path).unwrap()), facts(&page()));
    }

    #[test]
    fn the_help_names_every_setting_with_an_effect() {
        let help = settings_help();
        assert!(
            PROPERTIES.iter().all(|property| help.contains(property.name) && help.contains(property.doc))
        );
    }

    /// The input is the answer of Java's broker to `GET_BROKER_CONFIG`: `BrokerConfig`, `MessageStoreConfig`, `NettyServerConfig`
    /// and others.
    #[test]
    fn every_setting_of_java_is_supported_or_has_no_effect_or_is_refused_with_a_reason() {
        let shown: BTreeMap<String, String> = wire::body::parse_key_values(
            Config::new("host", Ipv4Addr::LOCALHOST.into()).to_properties().as_bytes(),
        )
        .unwrap()
        .into_iter()
        .collect();
        let java = wire::defaults::BROKER;
        // A group waits a quarter as long for a master that is silent.
        let own = [("controllerHeartBeatTimeoutMills", "2500")];
        assert!(java.lines().count() > 470);
        for (name, default) in java.lines().filter_map(|line| line.split_once('=')) {
            let name = super::super::aliases::present_name(name).unwrap_or(name);
            let kinds = [
                super::super::property::property(name).is_some(),
                refused::is_known(name),
                net::tls::TlsSettings::NAMES.contains(&name),
                unknown::lookup(name).is_some_and(|known| !known.reason.is_empty()),
            ];
            assert_eq!(kinds.iter().filter(|is| **is).count(), 1, "{name}");
            let depends_on_the_machine = default == "*";
            // The settings of TLS have a table of their own.
            let is_shown = shown.contains_key(name);
            assert!(
                depends_on_the_machine
                    || !is_shown
                    || own.contains(&(name, &shown[name]))
                    || shown[name] == default,
                "{name}: {} here, {default} in Java",
                shown[name]
            );
        }
    }
}
