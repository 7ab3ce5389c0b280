//! Requests that a slave refuses: every request that would append to its log or change a table, because both are
//! copies of the master's. A slave that acts for its master serves pops and acknowledgements from memory
//! (`PopBufferMergeService`).

use wire::codes::response;

use crate::Refusal;
use crate::broker::Broker;
use crate::role::BrokerRole;

/// Makes the refusal of `NettyRemotingAbstract.processRequestCommand` for a positive `rejectRequest` of the
/// processor.
pub(super) fn rejected() -> Refusal {
    Refusal::new(response::SYSTEM_BUSY, "[REJECTREQUEST]system busy, start flow control for a while")
}

/// Returns no refusal, because a slave serves the request.
pub(super) fn serves(_: &Broker) -> Option<Refusal> {
    None
}

/// Returns the refusal of a send, and of a message that is sent back.
pub(super) fn rejects(_: &Broker) -> Option<Refusal> {
    Some(rejected())
}

/// Returns the refusal of a pull. A slave serves pulls with `slaveReadEnable`.
pub(super) fn pulls(broker: &Broker) -> Option<Refusal> {
    let serves_pulls = broker.runtime.config.slave_read_enable && broker.replication.role.is_consistent();
    (!serves_pulls).then(rejected)
}

/// Returns the refusal of a pop, or of a change of popped messages. A slave serves both while it acts for its master.
pub(super) fn pops(broker: &Broker) -> Option<Refusal> {
    if serves_pops(broker) { None } else { appends(broker) }
}

/// Returns the refusal of a request that appends to the log.
pub(super) fn appends(_: &Broker) -> Option<Refusal> {
    let remark = "service not available now. This broker is a slave, which stores nothing: ask the master";
    Some(Refusal::new(response::SERVICE_NOT_AVAILABLE, remark))
}

/// Returns the refusal of a request that ends a transaction.
pub(super) fn transactions(_: &Broker) -> Option<Refusal> {
    let remark = "Message store is slave mode, so end transaction is forbidden. ";
    Some(Refusal::new(response::SLAVE_NOT_AVAILABLE, remark))
}

/// Returns the refusal of a recall of a timed message (`RecallMessageProcessor`).
pub(super) fn recalls(broker: &Broker) -> Option<Refusal> {
    Some(match broker.runtime.config.timers.recall {
        true => Refusal::new(response::SLAVE_NOT_AVAILABLE, "recall failed, broker service not available"),
        false => Refusal::new(response::NO_PERMISSION, "recall failed, operation is forbidden"),
    })
}

/// Returns the refusal of a change of a table that slaves copy.
pub(super) fn tables(_: &Broker) -> Option<Refusal> {
    Some(Refusal::error("this broker is a slave, which takes its tables from the master: change them there"))
}

/// Returns the refusal of a change of topics or groups (`AdminBrokerProcessor.validateSlave`).
pub(super) fn topics_and_groups(_: &Broker) -> Option<Refusal> {
    let remark =
        "Can't modify topic or subscription group from slave broker, please execute it from master broker.";
    Some(Refusal::error(remark))
}

/// Whether this slave pops for its master, which is gone. As for pulls, `slaveReadEnable` is needed.
fn serves_pops(broker: &Broker) -> bool {
    broker.replication.acting.is_acting()
        && broker.runtime.config.slave_read_enable
        && broker.replication.role.is_consistent()
}

/// Whether the master of this slave is gone and the slave may act for it soon.
pub(super) fn may_act_soon(broker: &Broker) -> bool {
    let (config, replication) = (&broker.runtime.config, &broker.replication);
    config.has_acting_master()
        && config.slave_read_enable
        && replication.role.current() == BrokerRole::Slave
        && replication.role.is_consistent()
        && !replication.acting.is_acting()
        && !replication.replicas.follows()
}

#[cfg(test)]
mod tests {
    use wire::codes::request as code;

    use super::super::request_table::find;
    use super::*;
    use crate::testing::Fixture;

    fn refusal(broker: &Broker, asked: i32) -> Option<Refusal> {
        (find(asked).unwrap().at_slave)(broker)
    }

    #[test]
    fn a_slave_pops_only_while_it_acts_for_its_master() {
        let fixture = Fixture::with(|config| {
            config.replication.role = crate::config::Role::Slave;
            config.broker_id = 1;
            config.slave_read_enable = true;
        });
        let refused = |asked| refusal(&fixture.broker, asked).map(|refusal| refusal.code);
        let change = code::CHANGE_MESSAGE_INVISIBLETIME;
        for asked in [code::POP_MESSAGE, code::ACK_MESSAGE, code::BATCH_ACK_MESSAGE, change] {
            fixture.broker.replication.acting.set_acting(false);
            assert_eq!(refused(asked), Some(response::SERVICE_NOT_AVAILABLE));
            fixture.broker.replication.acting.set_acting(true);
            assert_eq!(refused(asked), None, "{asked}");
        }
        assert_eq!(refused(code::POP_ROLLBACK), Some(response::SERVICE_NOT_AVAILABLE));
    }

    #[test]
    fn a_recall_at_a_slave_is_refused_as_in_java() {
        let refused = |recall: bool| {
            let fixture = Fixture::with(|config| config.timers.recall = recall);
            let refusal = refusal(&fixture.broker, code::RECALL_MESSAGE).unwrap();
            (refusal.code, refusal.remark.to_string())
        };
        let unavailable = "recall failed, broker service not available".to_owned();
        assert_eq!(refused(true), (response::SLAVE_NOT_AVAILABLE, unavailable));
        assert_eq!(
            refused(false),
            (response::NO_PERMISSION, "recall failed, operation is forbidden".to_owned())
        );
    }
}
