//! Replication: how far masters and slaves are, who is in sync, who led when.

use super::runtime::{shown_failures, silent};
use crate::answers::rows;
use crate::app::servers::controllers;
use crate::app::{App, Visitor};
use crate::refusal::Refusal;
use crate::view::{Page, columns_table, operation_link, taken};
use maud::{Markup, html};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Most brokers and broker sets that are asked for a page.
const BROKERS_MAX: usize = 128;
/// Elections that are shown of each broker set, the latest first.
const ELECTIONS: usize = 20;
/// Columns of the table of how far each slave has copied the log of its master.
const POSITIONS: [&str; 9] = [
    "broker",
    "id",
    "master",
    "slave",
    "master_offset",
    "slave_offset",
    "behind_bytes",
    "in_sync",
    "bytes_per_second",
];

/// The rows that the brokers returned, and the texts of those that refused.
#[derive(Default)]
struct Collected {
    rows: Vec<Value>,
    failures: Vec<String>,
}

impl Collected {
    /// Takes over the rows of an answer with some members more.
    fn add(&mut self, whom: &str, answer: Result<Value, Refusal>, more: &Value) {
        match answer {
            Ok(answer) => {
                let single = [answer];
                let list = single[0].as_array().map_or(&single[..], Vec::as_slice);
                self.rows.extend(list.iter().map(|row| merged(row, more)));
            }
            Err(refusal) => self.failures.push(format!("{whom}: {}", refusal.text)),
        }
    }
}

fn merged(row: &Value, more: &Value) -> Value {
    let members = [more, row].into_iter().filter_map(Value::as_object).flatten();
    Value::Object(members.map(|(name, value)| (name.clone(), value.clone())).collect())
}

/// Positions of all brokers, in-sync sets and elections of those that have controllers.
pub(super) async fn replication(app: &App, who: &Visitor) -> Result<Page, Refusal> {
    let lang = who.lang;
    let brokers = app.look(who, ("cluster", "list"), &[], 1000).await?;
    let mut positions = Collected { failures: silent(app), ..Collected::default() };
    for row in rows(&brokers).iter().filter(|row| row["error"].is_null()).take(BROKERS_MAX) {
        let address = row["address"].as_str().unwrap_or_default();
        let answer = app.look(who, ("broker", "replication"), &[("broker", address)], 1000).await;
        positions.add(address, answer, &json!({"broker": row["broker"], "id": row["id"]}));
    }
    if rows(&brokers).len() > BROKERS_MAX {
        positions.failures.push(format!("{BROKERS_MAX} / {}", rows(&brokers).len()));
    }
    let (mut leaders, mut replicas, mut elections) =
        (Collected::default(), Collected::default(), Collected::default());
    for (controller, sets) in controllers(app, who).await? {
        let given = [("controller", controller.as_str())];
        leaders.add(&controller, app.look(who, ("controller", "metadata"), &given, 1000).await, &Value::Null);
        for cluster in sets.values().collect::<BTreeSet<_>>() {
            let given = [given[0], ("cluster", cluster.as_str())];
            let answer = app.look(who, ("replica", "in-sync"), &given, 1000).await;
            replicas.add(&controller, answer, &json!({"cluster": cluster, "controller": controller}));
        }
        for set in sets.keys().take(BROKERS_MAX) {
            let answer = app.look(who, ("replica", "epochs"), &[("broker", set)], 1000).await;
            elections.add(set, answer.map(latest), &Value::Null);
        }
    }
    let body = html! {
        (taken(lang))
        h2 { (lang.say("Positions")) }
        p.small { (lang.say("Each broker tells for itself: a master of its slaves, a slave of its master")) }
        (shown_failures(&positions.failures))
        (columns_table(lang, &positions.rows, &POSITIONS))
        h2 { (lang.say("Controllers")) }
        (shown_failures(&leaders.failures))
        @if leaders.rows.is_empty() && leaders.failures.is_empty() {
            p { (lang.say("No broker has controllers: the operator names masters and slaves")) }
        } @else {
            (columns_table(lang, &leaders.rows, &["leader_id", "leader", "peers"]))
            h2 { (lang.say("In-sync sets")) }
            (shown_failures(&replicas.failures))
            (columns_table(lang, &replicas.rows, &["cluster", "set", "id", "address", "master", "in_sync", "alive"]))
            (candidates(who, &replicas.rows))
            h2 { (lang.say("Elections")) }
            p.small { (lang.say("Each election begins an epoch, which its master writes from an offset of the log on")) }
            (shown_failures(&elections.failures))
            (columns_table(lang, &elections.rows, &["broker", "id", "address", "epoch", "start", "end"]))
        }
    };
    let failures = [positions.failures, leaders.failures, replicas.failures, elections.failures].concat();
    let data = json!({"positions": positions.rows, "controllers": leaders.rows, "replicas": replicas.rows, "elections": elections.rows, "failures": failures});
    Ok(Page::new(lang.say("Replication"), data, body).live(5000))
}

/// The last epochs of each broker, the latest first.
fn latest(epochs: Value) -> Value {
    let mut all = rows(&epochs).to_vec();
    all.sort_by_key(|row| (row["id"].as_i64(), std::cmp::Reverse(row["epoch"].as_i64())));
    let of_broker = all.chunk_by(|one, other| one["id"] == other["id"]);
    of_broker.flat_map(|epochs| epochs.iter().take(ELECTIONS)).cloned().collect()
}

/// Links that make a broker of an in-sync set its master.
fn candidates(who: &Visitor, replicas: &[Value]) -> Markup {
    let is_candidate =
        |row: &&Value| row["in_sync"] == true && row["alive"] == true && row["master"] == false;
    html! {
        div.actions { @for row in replicas.iter().filter(is_candidate) {
            @let text = |name: &str| crate::view::cell_text(&row[name]);
            @let (id, set, cluster, controller) = (text("id"), text("set"), text("cluster"), text("controller"));
            @let given = [("id", id.as_str()), ("broker", &set), ("cluster", &cluster), ("controller", &controller)];
            (operation_link(who, &format!("{} {}", who.lang.say("Make it master:"), text("address")), ("replica", "elect"), &given))
        } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_elections_of_each_broker_come_first() {
        let epochs = (0..30).flat_map(|epoch| [1, 2].map(|id| json!({"id": id, "epoch": epoch})));
        let found = latest(epochs.collect());
        assert_eq!(rows(&found).len(), 2 * ELECTIONS);
        assert_eq!(
            (&found[0], &found[ELECTIONS]),
            (&json!({"id": 1, "epoch": 29}), &json!({"id": 2, "epoch": 29}))
        );
    }

    #[test]
    fn rows_keep_who_told_them() {
        let mut collected = Collected::default();
        collected.add("h:1", Ok(json!([{"slave": "s"}])), &json!({"broker": "a"}));
        collected.add("h:2", Ok(json!({"leader": "c"})), &Value::Null);
        collected.add("h:3", Err(Refusal::missing("gone")), &Value::Null);
        assert_eq!(collected.rows, [json!({"broker": "a", "slave": "s"}), json!({"leader": "c"})]);
        assert_eq!(collected.failures, ["h:3: gone"]);
    }
}
