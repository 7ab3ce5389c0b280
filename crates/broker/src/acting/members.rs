//! Decisions that follow from the brokers of a group.

use std::collections::BTreeMap;

use wire::body::ConsumerOffsetTable;

/// The id of a master (`MixAll.MASTER_ID`).
pub(super) const MASTER: i64 = 0;

/// Addresses of the brokers of a group by their ids.
pub(super) type Members = BTreeMap<i64, String>;

/// Duty of a slave.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Duty {
    /// The group has no master, and this slave has the smallest id.
    Act,
    /// The group has no master, and another slave acts.
    StandBy,
    /// The group has a master at this address.
    Follow(String),
}

/// Returns the duty of the slave with the id `own` in a group of these brokers. Name servers may not know the slave
/// itself yet.
pub(super) fn duty(members: &Members, own: i64) -> Duty {
    match members.first_key_value() {
        Some((&MASTER, master)) => Duty::Follow(master.clone()),
        Some((smallest, _)) if *smallest < own => Duty::StandBy,
        _ => Duty::Act,
    }
}

/// Returns the other brokers with which a master of this address exchanges offsets before it serves, by their ids.
pub(super) fn slaves(members: Members, own: &str) -> impl Iterator<Item = String> {
    members
        .into_iter()
        .filter(move |(id, address)| *id != MASTER && address != own)
        .map(|(_, address)| address)
}

/// Returns the offsets of `ours` that are larger than in `theirs` or missing there: `topic@group`, queue id and offset.
pub(super) fn behind<'a>(
    ours: &'a ConsumerOffsetTable,
    theirs: &'a ConsumerOffsetTable,
) -> impl Iterator<Item = (&'a str, i32, i64)> {
    let all = ours.offset_table.iter();
    let all = all.flat_map(|(key, queues)| queues.iter().map(move |(queue, offset)| (key, *queue, *offset)));
    all.filter(|(key, queue, offset)| {
        let known = theirs.offset_table.get(*key).and_then(|queues| queues.get(queue));
        known.is_none_or(|known| known < offset)
    })
    .map(|(key, queue, offset)| (key.as_str(), queue, offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slave_with_the_smallest_id_acts_when_there_is_no_master() {
        let check = |ids: &[i64], own, expected: Duty| {
            let members = ids.iter().map(|id| (*id, format!("h:{id}"))).collect();
            assert_eq!(duty(&members, own), expected, "{own} of {ids:?}");
        };
        check(&[0, 1, 2], 1, Duty::Follow("h:0".to_owned()));
        check(&[0], 2, Duty::Follow("h:0".to_owned()));
        check(&[1, 2], 1, Duty::Act);
        check(&[1, 2], 2, Duty::StandBy);
        check(&[2], 1, Duty::Act);
        check(&[], 3, Duty::Act);
    }

    #[test]
    fn a_master_asks_all_but_itself() {
        let members = [(0, "h:9"), (1, "h:1"), (2, "h:2"), (3, "h:0")];
        let members = members.map(|(id, address)| (id, address.to_owned())).into();
        assert_eq!(slaves(members, "h:0").collect::<Vec<_>>(), ["h:1", "h:2"]);
    }

    #[test]
    fn only_what_is_larger_is_told() {
        let table = |entries: &[(&str, i32, i64)]| {
            let mut table = ConsumerOffsetTable::default();
            for (key, queue, offset) in entries {
                table.offset_table.entry((*key).to_owned()).or_default().insert(*queue, *offset);
            }
            table
        };
        let ours = table(&[("T@g", 0, 5), ("T@g", 1, 5), ("T@h", 0, 1), ("U@g", 0, 3)]);
        let theirs = table(&[("T@g", 0, 4), ("T@g", 1, 5), ("T@h", 1, 9), ("U@g", 0, 4)]);
        let told: Vec<_> = behind(&ours, &theirs).collect();
        assert_eq!(told, [("T@g", 0, 5), ("T@h", 0, 1)]);
    }
}
