//! Requests from other brokers of a group: 60, and in a group with acting masters 905 and 906
//! (`AdminBrokerProcessor`).

use store::timer::TimerCheck;

use super::answer::{Answer, not_supported};
use super::incoming::Request;
use crate::Result;

/// 60 `GET_TIMER_CHECK_POINT`: delivery progress of timed messages. Slaves ask their master. A Java master asks its
/// slaves before it serves. Slaves deliver no messages, so their checkpoint has a version older than every master's,
/// and no master accepts it.
pub(super) fn timer_checkpoint(r: &Request<'_>) -> Result<Answer> {
    r.note_slave();
    let (broker, config) = (r.broker, &r.broker.runtime.config);
    let checkpoint = match *broker.delivery.timer.checkpoint() {
        Some(checkpoint) if !broker.replication.role.is_slave() => checkpoint,
        // A Java slave would take the answer over, whatever its version.
        _ if !config.has_acting_master() || !config.is_slave() => {
            return Err(not_supported(r.command.code));
        }
        _ => TimerCheck { version: [-1, 0, 0], ..TimerCheck::default() },
    };
    Ok(Answer::success().body(checkpoint.to_bytes().to_vec()))
}

/// 905 `NOTIFY_MIN_BROKER_ID_CHANGE`: a name server reports that the smallest id of the group has changed. A Java
/// broker trusts the notice from any sender (`notifyMinBrokerIdChange`). This broker asks its name servers.
pub(super) fn smallest_id_changed(r: &Request<'_>) -> Result<Answer> {
    r.broker.replication.acting.notify();
    Ok(Answer::success())
}

/// 906 `EXCHANGE_BROKER_HA_INFO`: a returning master sends its address for slaves, or a slave asks for that address
/// (`updateBrokerHaInfo`). Only a slave of a group with acting masters takes an address from the request.
pub(super) fn exchange_ha(r: &Request<'_>) -> Result<Answer> {
    let broker = r.broker;
    let is_master = !broker.runtime.config.begins_as_copy();
    Ok(match r.word("masterHaAddress") {
        Some(ha) => {
            if broker.runtime.config.has_acting_master() && broker.runtime.config.is_slave() {
                // The master's tables are taken once name servers know it: until then its offsets may be older than ours.
                broker.replication.replicas.learn(None, Some(ha));
            }
            Answer::success()
        }
        None if is_master => Answer::success()
            .field("masterHaAddress", broker.identity.ha_address())
            .field("masterFlushOffset", broker.replication.acting.log_end_at_start().get())
            .field("masterAddress", broker.identity.address()),
        None => Answer::success(),
    })
}

#[cfg(test)]
mod tests {
    use wire::codes::request;

    use crate::config::{Config, Role};
    use crate::replicas::MasterAddresses;
    use crate::testing::Fixture;

    #[test]
    fn a_notice_has_the_name_servers_asked_and_is_not_believed() {
        let fixture = Fixture::new();
        let notices = fixture.broker.replication.acting.notices();
        let fields = [("minBrokerId", "0"), ("minBrokerAddr", "10.0.0.9:1"), ("haBrokerAddr", "10.0.0.9:2")];
        assert_eq!(fixture.ask(request::NOTIFY_MIN_BROKER_ID_CHANGE, &fields, b"").0, 0);
        assert!(notices.has_changed().unwrap());
        assert_eq!(*fixture.broker.replication.replicas.master().borrow(), MasterAddresses::default());
    }

    #[test]
    fn no_master_takes_over_what_a_slave_says_of_timed_messages() {
        let fixture = Fixture::with(|config| {
            config.replication.role = Role::Slave;
            config.replication.acting.is_enabled = true;
        });
        let (code, _, body) = fixture.ask(request::GET_TIMER_CHECK_POINT, &[], b"");
        let state_version = i64::from_be_bytes(body[32..40].try_into().unwrap());
        assert_eq!((code, body.len(), state_version), (0, 56, -1));
        let (code, ..) = Fixture::new().ask(request::GET_TIMER_CHECK_POINT, &[], b"");
        assert_eq!(code, wire::codes::response::REQUEST_CODE_NOT_SUPPORTED);
    }

    #[test]
    fn only_a_slave_of_a_group_with_acting_masters_takes_an_address() {
        let slave = |config: &mut Config| config.replication.role = Role::Slave;
        let acting = |config: &mut Config| config.replication.acting.is_enabled = true;
        for (is_slave, is_acting) in [(false, true), (true, false), (true, true)] {
            let fixture = Fixture::with(|config| {
                if is_slave {
                    slave(config);
                }
                if is_acting {
                    acting(config);
                }
            });
            let fields = [("masterHaAddress", "10.0.0.1:10912"), ("masterAddress", "10.0.0.1:10911")];
            assert_eq!(fixture.ask(request::EXCHANGE_BROKER_HA_INFO, &fields, b"").0, 0);
            let known = fixture.broker.replication.replicas.master().borrow().clone();
            let taken = (is_slave && is_acting).then(|| "10.0.0.1:10912".to_owned());
            assert_eq!((known.ha, known.broker), (taken, None));
        }
    }
}
