//! Connections of producers and consumers.

use std::collections::BTreeMap;

use wire::body::ConsumeType;
use wire::codes::{Language, version_name};

use super::catalogue::{CONSUMERS, PRODUCERS};
use super::exposition::Exposition;
use super::labels::{flag, is_system_group};
use crate::clients::Member;
use crate::parts::Sessions;

pub(super) fn write(sessions: &Sessions, text: &mut Exposition) {
    let mut producers: BTreeMap<[String; 3], u64> = BTreeMap::new();
    for member in sessions.clients.all_producers().values().flatten() {
        *producers.entry(kind(member)).or_default() += 1;
    }
    let mut family = text.family(&PRODUCERS);
    for ([language, version, protocol], count) in producers {
        family.value(&[&language, &version, &protocol], count as f64);
    }
    family.end();

    let mut family = text.family(&CONSUMERS);
    for (group, (consume_type, members)) in sessions.clients.all_consumers() {
        let mut consumers: BTreeMap<[String; 3], u64> = BTreeMap::new();
        members.iter().for_each(|member| *consumers.entry(kind(member)).or_default() += 1);
        let (mode, is_system) = (mode(consume_type), flag(is_system_group(&group)));
        for ([language, version, protocol], count) in consumers {
            family.value(&[&group, &language, &version, mode, &protocol, is_system], count as f64);
        }
    }
    family.end();
}

/// Language, version and protocol of a client.
fn kind(member: &Member) -> [String; 3] {
    let language = member.language.unwrap_or(Language::Other).name().to_ascii_lowercase();
    [language, version_name(member.version).to_ascii_lowercase(), member.link.protocol().to_owned()]
}

fn mode(consume_type: ConsumeType) -> &'static str {
    match consume_type {
        ConsumeType::ConsumeActively => "pull",
        ConsumeType::ConsumePassively => "push",
        ConsumeType::ConsumePop => "pop",
        ConsumeType::Unknown => "unknown",
    }
}
