//! Replication: positions of masters and slaves, brokers in sync and brokers that may be elected, past elections, and
//! recoveries after a loss.

use super::runtime::{shown_failures, silent};
use crate::app::servers::controllers;
use crate::app::{App, Visitor};
use crate::refusal::Refusal;
use crate::view::{
    Column, Page, Table, broker_link, bytes, card, counted, empty, number, operation_link, status,
};
use crate::words::Lang;
use admin::{BrokerRow, Epoch, Epochs, InSync, Level, Metadata, Replica, ReplicaStatus, Replicas};
use maud::{Markup, html};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Most brokers and broker sets that are asked for a page.
const BROKERS_MAX: usize = 128;
/// Elections that are shown of each broker set, the latest first.
const ELECTIONS: usize = 20;

/// A group of controllers, with the broker sets that name it and its answers about them.
struct Group {
    /// Addresses of the controllers, as the brokers name them.
    controllers: String,
    metadata: Option<Arc<Metadata>>,
    /// The brokers of each cluster.
    clusters: Vec<(String, Arc<InSync>)>,
    elections: Vec<Epoch>,
}

/// The parts of the page, and the texts of the servers that refused.
#[derive(Default)]
struct Collected {
    positions: Vec<(BrokerRow, Arc<Replicas>)>,
    groups: Vec<Group>,
    failures: Vec<String>,
}

impl Collected {
    /// The answer of a server; notes the reason if there is none.
    fn answer<T>(&mut self, server: &str, answer: Result<T, Refusal>) -> Option<T> {
        answer.inspect_err(|refusal| self.failures.push(format!("{server}: {}", refusal.text))).ok()
    }
}

/// Page with the positions of all brokers, and the in-sync sets and elections of broker sets with controllers.
pub(super) async fn replication(app: &App, who: &Visitor) -> Result<Page, Refusal> {
    let lang = who.lang;
    let mut all = Collected { failures: silent(app), ..Collected::default() };
    let brokers = app.typed::<Vec<BrokerRow>>(who, ("cluster", "list"), &[], 1000).await?;
    for row in brokers.iter().filter(|row| row.error.is_none()).take(BROKERS_MAX) {
        let given = [("broker", row.address.as_str())];
        let answer = app.typed::<Replicas>(who, ("broker", "replication"), &given, 1000).await;
        let replicas = all.answer(&row.address, answer);
        all.positions.extend(replicas.map(|replicas| (row.clone(), replicas)));
    }
    if brokers.len() > BROKERS_MAX {
        all.failures.push(format!("{BROKERS_MAX} / {}", brokers.len()));
    }
    for (controllers, sets) in controllers(app, who).await? {
        let group = group(app, who, &mut all, (controllers, sets)).await;
        all.groups.push(group);
    }
    let body = html! {
        (shown_failures(&all.failures))
        (cards(lang, &all))
        h2 { (lang.say("Positions")) }
        p.small { (lang.say("Each broker tells for itself: a master of its slaves, a slave of its master")) }
        (positions_of(lang, &all.positions))
        h2 { (lang.say("Controllers")) }
        @if all.groups.is_empty() { p.small { (lang.say("No broker has controllers: the operator names masters and slaves")) } }
        @for group in &all.groups { (shown_group(who, group)) }
    };
    let positions = all.positions.iter().flat_map(|(row, replicas)| {
        let more = json!({"broker": row.broker, "id": row.id});
        replicas.rows.iter().map(move |replica| merged(&more, &json!(replica)))
    });
    let replicas = all.groups.iter().flat_map(|group| {
        let rows = group
            .clusters
            .iter()
            .flat_map(|(cluster, found)| found.rows.iter().map(move |row| (cluster, row)));
        rows.map(|(cluster, row)| {
            merged(&json!({"cluster": cluster, "controller": group.controllers}), &json!(row))
        })
    });
    let data = json!({
        "positions": positions.collect::<Vec<_>>(),
        "controllers": all.groups.iter().filter_map(|group| group.metadata.as_deref()).collect::<Vec<_>>(),
        "replicas": replicas.collect::<Vec<_>>(),
        "elections": all.groups.iter().flat_map(|group| &group.elections).collect::<Vec<_>>(),
        "failures": all.failures,
    });
    Ok(Page::new(lang.say("Replication"), data, body).live(5000))
}

fn merged(more: &Value, row: &Value) -> Value {
    let members = [more, row].into_iter().filter_map(Value::as_object).flatten();
    Value::Object(members.map(|(name, value)| (name.clone(), value.clone())).collect())
}

/// Asks a group of controllers, and the brokers of their sets for elections.
async fn group(
    app: &App,
    who: &Visitor,
    all: &mut Collected,
    (controllers, sets): (String, BTreeMap<String, String>),
) -> Group {
    let given = [("controller", controllers.as_str())];
    let metadata = app.typed::<Metadata>(who, ("controller", "metadata"), &given, 1000).await;
    let metadata = all.answer(&controllers, metadata);
    let mut clusters = Vec::new();
    for cluster in sets.values().collect::<BTreeSet<_>>() {
        let given = [given[0], ("cluster", cluster.as_str())];
        let found =
            all.answer(&controllers, app.typed::<InSync>(who, ("replica", "in-sync"), &given, 1000).await);
        clusters.extend(found.map(|found| (cluster.clone(), found)));
    }
    let mut elections = Vec::new();
    for set in sets.keys().take(BROKERS_MAX) {
        let found = app.typed::<Epochs>(who, ("replica", "epochs"), &[("broker", set)], 1000).await;
        elections.extend(all.answer(set, found).map(|epochs| latest(&epochs.rows)).unwrap_or_default());
    }
    Group { controllers, metadata, clusters, elections }
}

/// The last epochs of each broker, the latest first.
fn latest(epochs: &[Epoch]) -> Vec<Epoch> {
    let mut all: Vec<&Epoch> = epochs.iter().collect();
    all.sort_by_key(|row| (row.id, std::cmp::Reverse(row.epoch)));
    all.chunk_by(|one, other| one.id == other.id)
        .flat_map(|epochs| epochs.iter().take(ELECTIONS))
        .map(|row| (*row).clone())
        .collect()
}

/// Brokers by role, the slave that is furthest behind, brokers that are gone.
fn cards(lang: Lang, all: &Collected) -> Markup {
    let masters = all.positions.iter().filter(|(row, _)| row.id == 0).count();
    let of_masters = all.positions.iter().filter(|(row, _)| row.id == 0);
    let of_masters = of_masters.flat_map(|(row, told)| told.rows.iter().map(move |replica| (row, replica)));
    let furthest = of_masters
        .filter(|(_, replica)| !replica.slave.is_empty())
        .max_by_key(|(_, replica)| replica.behind_bytes);
    let replicas = all.groups.iter().flat_map(|group| &group.clusters).flat_map(|(_, found)| &found.rows);
    let (alive, gone): (Vec<_>, Vec<_>) = replicas.partition(|replica| replica.alive);
    let count = |count: usize| number(i64::try_from(count).unwrap_or(i64::MAX));
    html! {
        div.cards {
            (card(lang.say("Masters"), count(masters), counted(lang, all.positions.len() - masters, lang.say("slave"), lang.say("slaves"))))
            @match furthest {
                Some((row, replica)) => (card(lang.say("Furthest behind"), bytes(replica.behind_bytes.unwrap_or_default()), slave(&all.positions, row, replica))),
                None => (card(lang.say("Furthest behind"), "–", lang.say("No slave is connected"))),
            }
            @if !all.groups.is_empty() {
                (card(lang.say("In sync"), count(alive.iter().filter(|it| it.in_sync).count()), html! { (lang.say("of")) " " (count(alive.len() + gone.len())) " " (lang.say("brokers with controllers")) }))
                (card(lang.say("Gone"), count(gone.len()), gone.first().map(|it| it.address.clone()).unwrap_or_default()))
            }
        }
    }
}

fn positions_of(lang: Lang, all: &[(BrokerRow, Arc<Replicas>)]) -> Markup {
    let rows = all.iter().flat_map(|(row, replicas)| {
        let broker = broker_link(&row.broker, row.id, &row.address);
        replicas.rows.iter().map(move |replica| (Some(broker.clone()), ends(all, row, replica), replica))
    });
    let advice =
        lang.say("No slave is connected; start a slave with brokerRole=SLAVE, or brokers with controllers");
    position_table(lang, rows.collect()).or(empty(lang, advice))
}

/// The slave of a replica that the broker `teller` reports. A master reports only the address from
/// which the slave connected, so the slave is found by that address.
fn slave(all: &[(BrokerRow, Arc<Replicas>)], teller: &BrokerRow, replica: &ReplicaStatus) -> Markup {
    let is_slave =
        |row: &BrokerRow| row.id != 0 && (&row.cluster, &row.broker) == (&teller.cluster, &teller.broker);
    let slaves: Vec<_> = all.iter().filter(|(row, _)| is_slave(row)).collect();
    let ends: Vec<_> = slaves
        .iter()
        .map(|(row, told)| (row.address.as_str(), told.rows.iter().find_map(|it| it.connection.as_deref())))
        .collect();
    let address = match teller.id {
        0 => admin::slave_behind(&replica.slave, &ends),
        _ => Some(teller.address.as_str()),
    };
    match slaves.iter().find(|(row, _)| Some(row.address.as_str()) == address) {
        Some((row, _)) => named(row),
        None => html! { (replica.slave) },
    }
}

fn named(row: &BrokerRow) -> Markup {
    html! { (broker_link(&row.broker, row.id, &row.address)) " " span.soft { (row.address) } }
}

/// The slave and the master of a replica that the broker `teller` reports. A slave reports only the
/// replication port of its master, so the master is found as the master of the same broker set.
fn ends(all: &[(BrokerRow, Arc<Replicas>)], teller: &BrokerRow, replica: &ReplicaStatus) -> [Markup; 2] {
    let is_master =
        |row: &BrokerRow| row.id == 0 && (&row.cluster, &row.broker) == (&teller.cluster, &teller.broker);
    let master = all.iter().find(|(row, _)| is_master(row));
    let master = master.map_or_else(|| html! { (replica.master) }, |(row, _)| named(row));
    [slave(all, teller, replica), master]
}

/// Log positions of the slaves of the master at `at`, or of the slave at `at`. `set` has the
/// brokers of its broker set.
pub(super) fn positions(lang: Lang, at: &str, set: &[(BrokerRow, Arc<Replicas>)]) -> Markup {
    let told = set.iter().filter(|(row, _)| row.address == at);
    let rows = told.flat_map(|(row, told)| told.rows.iter().map(move |it| (None, ends(set, row, it), it)));
    position_table(lang, rows.collect()).or(html! { p.small { (lang.say("No slave is connected")) } })
}

/// Table of replicas with their log positions. A row has the broker that reports the replica,
/// unless all rows are from one broker, and the slave and master of the replica.
fn position_table(lang: Lang, rows: Vec<(Option<Markup>, [Markup; 2], &ReplicaStatus)>) -> Table {
    let has_broker = rows.iter().any(|(broker, ..)| broker.is_some());
    let mut columns = Vec::from(Column::all(
        lang,
        ["Slave", "State", "#Behind", "#Copies per second", "Master", "#Slave position", "#Master position"],
    ));
    if has_broker {
        columns.insert(0, Column::text(lang.say("Told by")));
    }
    let offset = |offset: Option<i64>| html! { (offset.map_or_else(|| "–".to_owned(), number)) };
    let rows = rows.into_iter().map(|(broker, [slave, master], replica)| {
        let state = match replica.in_sync {
            Some(true) => status(Level::Ok, lang.say("In sync")),
            Some(false) => status(Level::Warning, lang.say("Behind")),
            None => status(Level::Unknown, lang.say("Copies")),
        };
        let cells = [
            slave,
            state,
            html! { (replica.behind_bytes.map_or_else(|| "–".to_owned(), bytes)) },
            html! { (bytes(replica.bytes_per_second)) },
            master,
            offset(replica.slave_offset),
            offset(replica.master_offset),
        ];
        broker.into_iter().chain(cells).collect()
    });
    Table::new(columns).rows(rows)
}

/// A group of controllers: leader, brokers of its sets, elections, and recoveries.
fn shown_group(who: &Visitor, group: &Group) -> Markup {
    let lang = who.lang;
    html! {
        @if let Some(metadata) = &group.metadata {
            p {
                @if metadata.leader.is_empty() { (status(Level::Critical, lang.say("No controller leads"))) }
                @else { (status(Level::Ok, lang.say("A controller leads"))) " " (metadata.leader_id) " " (metadata.leader) }
            }
            p.small { (lang.say("Members")) (lang.colon()) (metadata.peers.join(", ")) }
        } @else {
            p { (status(Level::Critical, lang.say("No controller answers"))) " " (group.controllers) }
        }
        h3 { (lang.say("In-sync sets")) }
        @for (cluster, found) in &group.clusters { (replica_table(who, (cluster, &group.controllers), &found.rows)) }
        (recoveries(who, group))
        h3 { (lang.say("Elections")) }
        p.small { (lang.say("Each election begins an epoch, which its master writes from an offset of the log on")) }
        (election_table(lang, &group.elections))
    }
}

/// Whether the controllers may elect a broker when its master is gone.
fn may_be_elected(replica: &Replica) -> bool {
    replica.in_sync && replica.alive
}

fn replica_table(who: &Visitor, (cluster, controllers): (&str, &str), rows: &[Replica]) -> Markup {
    let lang = who.lang;
    let columns = ["Broker set", "Broker", "Role", "State", "May be elected", "What to do"];
    let columns = columns.map(|title| Column::text(lang.say(title)));
    let rows = rows.iter().map(|replica| {
        let id = replica.id.to_string();
        let elect = [("id", id.as_str()), ("broker", &replica.set), ("cluster", cluster), ("controller", controllers)];
        let forget = [("broker", replica.set.as_str()), ("ids", &id), ("cluster", cluster), ("controller", controllers)];
        let state = match (replica.alive, replica.in_sync) {
            (true, true) => status(Level::Ok, lang.say("In sync")),
            (true, false) => status(Level::Warning, lang.say("Not in sync")),
            (false, true) => status(Level::Critical, lang.say("Gone, still in the set")),
            (false, false) => status(Level::Critical, lang.say("Gone")),
        };
        vec![
            html! { (replica.set) },
            html! { (replica.address) " " span.soft { (lang.say("id")) " " (id) } },
            html! { (if replica.master { lang.say("master") } else { lang.say("slave") }) },
            state,
            html! { (if may_be_elected(replica) { lang.say("yes") } else { lang.say("no") }) },
            html! {
                @if may_be_elected(replica) && !replica.master { (operation_link(who, lang.say("Make it the master"), ("replica", "elect"), &elect)) }
                @if !replica.alive { (operation_link(who, lang.say("Forget it for good"), ("replica", "forget"), &forget)) }
            },
        ]
    });
    Table::new(columns).rows(rows).or(empty(
        lang,
        lang.say("The controllers know no broker; see the recovery of lost controllers below"),
    ))
}

/// The recoveries of `docs/repair.md`, each with its form or command.
fn recoveries(who: &Visitor, group: &Group) -> Markup {
    let lang = who.lang;
    let sets: BTreeSet<&str> =
        group.clusters.iter().flat_map(|(_, found)| &found.rows).map(|it| it.set.as_str()).collect();
    let unclean =
        [("key", "enableElectUncleanMaster"), ("value", "true"), ("controller", group.controllers.as_str())];
    let first = group.controllers.split([';', ',']).next().unwrap_or_default();
    let rebuild = format!("vostok controller rebuild --to {first} --brokers HOST:PORT,HOST:PORT,HOST:PORT");
    html! {
        details {
            summary { (lang.say("When something is lost")) }
            dl {
                @for set in &sets {
                    dt { (lang.say("Sends are refused because too few brokers are in sync")) (lang.colon()) (set) }
                    dd {
                        (lang.say("Start the missing broker. Until then fewer copies can be made enough")) " "
                        (operation_link(who, lang.say("Change minInSyncReplicas"), ("broker", "set"), &[("broker", set), ("key", "minInSyncReplicas"), ("value", "1")]))
                    }
                }
                dt { (lang.say("No member of the in-sync set is alive")) }
                dd {
                    (lang.say("Start one of them. If none can be started, let any living broker be elected; messages that it does not have are lost")) " "
                    (operation_link(who, lang.say("Allow unclean elections"), ("controller", "set"), &unclean))
                }
                dt { (lang.say("A machine is gone for good, or its disk was replaced")) }
                dd { (lang.say("Forget the old broker in the table above; a new disk gets a new id")) }
                dt { (lang.say("All controllers lost their disks")) }
                dd { (lang.say("Start the controllers and all brokers of the set, then run for each set")) " " code { (rebuild) } }
                dt { (lang.say("One controller lost its disk")) }
                dd { (lang.say("Start it with an empty directory while the others run; it gets everything from the controller that leads")) }
            }
        }
    }
}

fn election_table(lang: Lang, elections: &[Epoch]) -> Markup {
    let columns =
        Column::all(lang, ["Broker set", "Broker", "#Epoch", "#Begins at", "#Ends at", "#Written in it"]);
    let rows = elections.iter().map(|row| {
        vec![
            html! { (row.broker) },
            html! { (row.address) },
            html! { (number(row.epoch.into())) },
            html! { (number(row.start)) },
            html! { (number(row.end)) },
            html! { (bytes((row.end - row.start).max(0))) },
        ]
    });
    Table::new(columns).rows(rows).or(html! { p.small { (lang.say("No broker tells of elections")) } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::users::Role;

    #[test]
    fn the_latest_elections_of_each_broker_come_first() {
        let epoch = |id: i64, epoch: i32| Epoch {
            broker: "a".into(),
            address: "h:1".into(),
            id,
            epoch,
            start: 0,
            end: 1,
        };
        let epochs: Vec<Epoch> = (0..30).flat_map(|number| [1, 2].map(|id| epoch(id, number))).collect();
        let found = latest(&epochs);
        assert_eq!(found.len(), 2 * ELECTIONS);
        assert_eq!(
            [(found[0].id, found[0].epoch), (found[ELECTIONS].id, found[ELECTIONS].epoch)],
            [(1, 29), (2, 29)]
        );
    }

    fn replica(id: i64, master: bool, in_sync: bool, alive: bool) -> Replica {
        Replica { set: "a".to_owned(), id, address: format!("h:{id}"), master, in_sync, alive }
    }

    #[test]
    fn slaves_are_named_by_their_connections_to_the_master() {
        let status = |slave: &str, connection: Option<&str>| {
            let (slave, connection) = (slave.to_owned(), connection.map(str::to_owned));
            let mut told = Replicas::default();
            told.rows.push(ReplicaStatus { slave, connection, ..ReplicaStatus::default() });
            Arc::new(told)
        };
        let broker = |id: i64, address: &str| {
            let mut row = BrokerRow::default();
            (row.broker, row.id, row.address) = ("a".to_owned(), id, address.to_owned());
            row
        };
        let all = [
            (broker(0, "h:1"), status("h:40001", None)),
            (broker(1, "h:2"), status("h:2", Some("h:40002"))),
            (broker(2, "h:3"), status("h:3", Some("h:40001"))),
        ];
        let shown = |at: usize| slave(&all, &all[at].0, &all[at].1.rows[0]).into_string();
        assert!(shown(0).contains("h:3") && !shown(0).contains("40001"), "{}", shown(0));
        assert!(shown(1).contains("h:2"), "{}", shown(1));
        let ends = [("10.0.0.1:10911", None), ("10.0.0.2:10911", None), ("10.0.0.2:10921", None)];
        assert_eq!(admin::slave_behind("10.0.0.1:5", &ends), Some("10.0.0.1:10911"));
        assert_eq!(admin::slave_behind("10.0.0.2:5", &ends), None, "two slaves are on the machine");
    }

    #[test]
    fn only_living_members_of_the_set_may_be_elected_and_only_the_gone_forgotten() {
        let rows = [
            replica(1, true, true, true),
            replica(2, false, true, true),
            replica(3, false, false, true),
            replica(4, false, true, false),
        ];
        let shown = |row: &Replica| {
            let row = std::slice::from_ref(row);
            replica_table(&Visitor::of_test(Role::Admin), ("C", "c:1;c:2"), row).into_string()
        };
        let has = |text: &str| rows.iter().map(|row| shown(row).contains(text)).collect::<Vec<_>>();
        assert_eq!(has("/op/replica/elect?id=2&amp;broker=a&amp;cluster=C"), [false, true, false, false]);
        assert_eq!(has("/op/replica/forget?broker=a&amp;ids=4"), [false, false, false, true]);
        assert_eq!(has(">Gone, still in the set<"), [false, false, false, true]);
        assert_eq!(has("data-label=\"May be elected\">yes<"), [true, true, false, false]);
    }

    #[test]
    fn recoveries_lead_to_their_forms() {
        let mut found = InSync::default();
        found.rows.push(replica(1, true, true, true));
        let found = Arc::new(found);
        let group = Group {
            controllers: "c:1;c:2".to_owned(),
            metadata: None,
            clusters: vec![("C".to_owned(), found)],
            elections: Vec::new(),
        };
        let text = shown_group(&Visitor::of_test(Role::Admin), &group).into_string();
        for part in [
            "/op/controller/set?key=enableElectUncleanMaster",
            "/op/broker/set?broker=a&amp;key=minInSyncReplicas",
            "rebuild --to c:1 --brokers",
            "No controller answers",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
