//! Lite topics: subscriptions of clients, and pops of a client's lite topics.
//!
//! Acknowledgements and changes of the invisible time use [`Api::acks`] and [`Api::change_invisible_times`]. The topic of
//! the message is then the queue of its lite topic ([`lite_queue`]), and the queue id is 0. A client that loses a lite
//! topic gets [`Notice::UnsubscribeLite`](super::Notice) on the link of its last subscription.

use std::sync::Arc;

use wire::body::LiteSubscriptions;

use super::{Api, ClientLink, Held};
pub use crate::names::lite_queue;
pub use crate::pop::LitePopRequest;
use crate::{Refusal, lite, pop};

impl Api {
    /// Whether the broker serves lite topics: `enableLmq` and `enableMultiDispatch` are on.
    pub fn serves_lite(&self) -> bool {
        self.broker.runtime.config.store.multi_dispatch
    }

    /// Changes the lite topics of clients in the order of the changes. `link` leads to the clients that the changes
    /// name.
    ///
    /// # Errors
    /// The refusal, with RocketMQ's code, of `LiteSubscriptionCtlProcessor.processRequest`. Changes before the refused
    /// change stay.
    pub async fn subscribe_lite(
        &self,
        link: &Arc<dyn ClientLink>,
        changes: &LiteSubscriptions,
    ) -> Result<(), Refusal> {
        lite::control(&self.broker.lite_parts(), link, changes)
    }

    /// Starts a pop of the lite topics of a client. The messages are returned like those of an ordered pop. The number of
    /// earlier deliveries of each message is in [`Popped::lite_deliveries`](super::Popped::lite_deliveries).
    ///
    /// # Errors
    /// The refusal, with RocketMQ's code, of `PopLiteMessageProcessor.preCheck`.
    pub async fn pop_lite(&self, request: &LitePopRequest<'_>) -> Result<Held, Refusal> {
        self.hold(|pops, out, later| pop::pop_lite(pops, request, out, later)).await
    }
}
