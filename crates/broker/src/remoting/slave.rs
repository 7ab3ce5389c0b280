//! Requests that a slave refuses: every request that would append to its log or change a table, because both are
//! copies of the master's. A slave that acts for its master serves pops and acknowledgements from memory
//! (`PopBufferMergeService`).

use wire::codes::{request as code, response};

use super::port::Port;
use super::request_table::{self, Serve};
use crate::Refusal;
use crate::broker::Broker;

/// Makes the refusal of `NettyRemotingAbstract.processRequestCommand` for a positive `rejectRequest` of the
/// processor.
pub(super) fn rejected() -> Refusal {
    Refusal::new(response::SYSTEM_BUSY, "[REJECTREQUEST]system busy, start flow control for a while")
}

/// Returns the refusal of a request that a slave does not serve, or `None` if it serves the request.
pub(super) fn refusal(broker: &Broker, asked: i32) -> Option<Refusal> {
    let appends = || {
        let remark =
            "service not available now. This broker is a slave, which stores nothing: ask the master";
        Refusal::new(response::SERVICE_NOT_AVAILABLE, remark)
    };
    match asked {
        code::CONSUMER_SEND_MSG_BACK => Some(rejected()),
        code::END_TRANSACTION => {
            let remark = "Message store is slave mode, so end transaction is forbidden. ";
            Some(Refusal::new(response::SLAVE_NOT_AVAILABLE, remark))
        }
        // `RecallMessageProcessor`.
        code::RECALL_MESSAGE if broker.runtime.config.timers.recall => {
            let remark = "recall failed, broker service not available";
            Some(Refusal::new(response::SLAVE_NOT_AVAILABLE, remark))
        }
        code::RECALL_MESSAGE => {
            Some(Refusal::new(response::NO_PERMISSION, "recall failed, operation is forbidden"))
        }
        code::SET_MESSAGE_REQUEST_MODE | code::UPDATE_AND_GET_GROUP_FORBIDDEN => Some(Refusal::error(
            "this broker is a slave, which takes its tables from the master: change them there",
        )),
        code::CHANGE_MESSAGE_INVISIBLETIME if serves_pops(broker) => None,
        code::CHANGE_MESSAGE_INVISIBLETIME | code::POP_ROLLBACK | code::RESUME_CHECK_HALF_MESSAGE => {
            Some(appends())
        }
        // `AdminBrokerProcessor.validateSlave`.
        code::UPDATE_AND_CREATE_TOPIC
        | code::UPDATE_AND_CREATE_TOPIC_LIST
        | code::DELETE_TOPIC_IN_BROKER
        | code::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
        | code::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST
        | code::DELETE_SUBSCRIPTIONGROUP => Some(Refusal::error(
            "Can't modify topic or subscription group from slave broker, please execute it from master broker.",
        )),
        asked => match request_table::find(asked, &Port::Own)?.serve {
            Serve::Send(_) => Some(rejected()),
            Serve::Pull(_)
                if !broker.runtime.config.slave_read_enable || !broker.replication.role.is_consistent() =>
            {
                Some(rejected())
            }
            Serve::Pop(_) | Serve::Ack(_) if serves_pops(broker) => None,
            Serve::Pop(_) | Serve::Ack(_) => Some(appends()),
            _ => None,
        },
    }
}

/// Whether this slave pops for its master, which is gone. As for pulls, `slaveReadEnable` is needed.
fn serves_pops(broker: &Broker) -> bool {
    broker.replication.acting.is_acting()
        && broker.runtime.config.slave_read_enable
        && broker.replication.role.is_consistent()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fixture;

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
