//! The topics in which the broker keeps messages for later, and the retry and dead letter topics of groups.

use std::sync::Arc;

use wire::body::topic::{PERM_READ, PERM_WRITE, TopicConfig};

use super::Tables;
use crate::change::Change;
use crate::parts::Runtime;
use crate::supervisor::SupervisedWork;
use crate::topics::Topic;
use crate::{Refusal, Result, names};

impl Tables {
    /// `SCHEDULE_TOPIC_XXXX`, in which delayed messages wait; refused when the thread that delivers them has stopped.
    pub(crate) fn schedule_topic(&self, runtime: &Runtime) -> Result<Arc<Topic>> {
        runtime.supervisor.demand(SupervisedWork::Delay)?;
        self.find_or_ensure(names::SCHEDULE_TOPIC, runtime.delay_levels())
    }

    /// `rmq_sys_wheel_timer`, in which timed messages wait; refused when the thread that delivers them has stopped.
    pub(crate) fn timer_topic(&self, runtime: &Runtime) -> Result<Arc<Topic>> {
        runtime.supervisor.demand(SupervisedWork::Timer)?;
        self.find_or_ensure(names::TIMER_TOPIC, 1)
    }

    /// The retry topic of a group, created on first use.
    pub(crate) fn retry_topic(&self, group: &str, queues: i32) -> Result<Arc<Topic>> {
        self.find_or_ensure(&names::retry_topic(group), queues)
    }

    /// The configuration of a group's retry topic; `None` when the topic exists.
    pub(crate) fn retry_topic_missing(&self, group: &str, queues: i32) -> Option<TopicConfig> {
        let name = names::retry_topic(group);
        let missing = self.topics.find(&name).is_none();
        missing.then(|| TopicConfig::new(name, queues, PERM_READ | PERM_WRITE))
    }

    /// The dead letter topic of a group, created on first use.
    pub(crate) fn dead_letter_topic(&self, group: &str) -> Result<Arc<Topic>> {
        self.find_or_ensure(&names::dlq_topic(group), 1)
    }

    fn find_or_ensure(&self, name: &str, queues: i32) -> Result<Arc<Topic>> {
        let missing = || Change::ensure_topic(TopicConfig::new(name, queues, PERM_READ | PERM_WRITE));
        self.topics.find(name).ok_or_else(|| Refusal::after(missing()))
    }

    /// `RMQ_SYS_TRANS_HALF_TOPIC`, in which undecided transaction messages wait.
    pub(crate) fn half_topic(&self) -> Result<Arc<Topic>> {
        self.find_or_ensure(names::HALF_TOPIC, 1)
    }
}
