//! Brokers and proxies that were there and are gone.

use crate::doctor::bilingual::{Phrase, Text, text};
use crate::doctor::bundle::{Bundle, Departed};
use crate::doctor::finding::{Check, Found, Look, checks};
use crate::doctor::remedy::Fix;
use crate::text::time;
use std::collections::BTreeMap;

/// Time for which a broker or proxy that disappeared is a finding.
const LOST_MS: i64 = 24 * 3_600_000;
/// Time for which a broker that unregistered is a finding. Such a broker was stopped, for a restart or for good.
const STOPPED_MS: i64 = 3_600_000;
const NEEDS: Phrase = Phrase("Vostok name servers, or a console that has looked before");
const SOURCE: Phrase = Phrase("departures at the name servers, earlier looks");

pub(super) const CHECKS: &[Check] = checks! {
    "broker-lost", Warning, broker_lost, "A broker was registered and is gone", NEEDS;
    "set-lost", Critical, set_lost,
        "No broker of a broker set is left, so that its messages cannot be read", NEEDS;
    "proxy-lost", Warning, proxy_lost,
        "A proxy in cluster mode was there and is gone", Phrase("a console that has looked before");
};

/// Departures that are still of interest. A member of a set with controllers is left out, because the checks of
/// replicas find it.
fn departed(bundle: &Bundle) -> Option<Vec<&Departed>> {
    let is_recent = |it: &&Departed| {
        let limit_ms = if it.is_unregistered { STOPPED_MS } else { LOST_MS };
        bundle.taken_at_ms - it.seen_ms <= limit_ms
    };
    let members = || bundle.replica_sets.iter().flat_map(|set| &set.members);
    let is_controlled = |it: &&Departed| members().any(|member| member.address == it.address);
    let recent = bundle.departed.as_ref()?.iter().filter(is_recent);
    Some(recent.filter(|it| !is_controlled(it)).collect())
}

/// Looks at the departures, if there is a record of departures.
fn look(bundle: &Bundle, find: impl Fn(Vec<&Departed>) -> Vec<Found>) -> Look {
    Look::each(departed(bundle), |departed| Some(find(departed)))
}

fn since(departed: &Departed) -> Text {
    let at = time(departed.seen_ms);
    match departed.is_unregistered {
        true => text!("it was stopped and unregistered; last heard of at {at}", at),
        false => text!("not heard of since {at}", at),
    }
}

fn broker_lost(bundle: &Bundle) -> Look {
    look(bundle, |departed| {
        let brokers = departed.into_iter().filter(|it| !it.is_proxy);
        let found = brokers.map(|broker| {
            let Departed { name, id, address, .. } = broker;
            let advice = text!("start the broker again, and look at its machine and log; if it was taken away for good: vostok admin namesrv forget. A broker that was stopped is forgotten after an hour, other brokers after a day");
            Found::new(format!("{name} (id {id}, {address})"), since(broker), SOURCE, advice)
                .fix(Fix::new("cluster", "list", &[]))
                .of_set(name)
                .at(address)
        });
        found.collect()
    })
}

fn set_lost(bundle: &Bundle) -> Look {
    let sets = || bundle.name_servers.iter().flat_map(|server| &server.sets);
    look(bundle, |departed| {
        let mut lost: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for broker in departed.into_iter().filter(|it| !it.is_proxy && !it.is_unregistered) {
            *lost.entry((&broker.cluster, &broker.name)).or_default() += 1;
        }
        lost.retain(|(_, name), _| !sets().any(|set| set.name == *name));
        let found = lost.into_iter().map(|((cluster, name), count)| {
            let figure = text!("none of its {count} brokers is registered", count);
            let advice = text!("start the brokers of {name}, the master first", name);
            let subject = text!("{name} of {cluster}", name, cluster);
            Found::new(subject, figure, SOURCE, advice).of_set(name)
        });
        found.collect()
    })
}

fn proxy_lost(bundle: &Bundle) -> Look {
    look(bundle, |departed| {
        let proxies = departed.into_iter().filter(|it| it.is_proxy);
        let found = proxies.map(|proxy| {
            let advice = text!("start the proxy again; a proxy that was taken away is forgotten after a day");
            let source: Phrase = Phrase("members of the group of proxies, earlier looks");
            Found::new(&proxy.name, since(proxy), source, advice).at(&proxy.name)
        });
        found.collect()
    })
}
