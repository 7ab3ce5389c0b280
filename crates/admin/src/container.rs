//! Operations on broker containers, processes that run several brokers of Apache RocketMQ (`BrokerContainer`).

use crate::arguments::place;
use crate::operation::{Operation, Written, change_each, operations};
use crate::request::Request;
use crate::{Argument, Arguments, Error, Session};
use wire::codes::request;

const CONTAINER: Argument =
    place("container", ("c", "brokerContainerAddr"), "address of the broker container");

/// The operations on broker containers.
pub(crate) const OPERATIONS: &[Operation] = operations! { "container":
    "add", Change, ["addBroker"], "Start a broker in a broker container of Apache RocketMQ",
        [CONTAINER, place("config", ("b", "brokerConfigPath"), "the broker's file of settings there")], add;
    "remove", Destroy, ["removeBroker"], "Stop a broker in a broker container of Apache RocketMQ",
        [CONTAINER, place("identity", ("b", "brokerIdentity"), "cluster:broker set:broker id")], remove;
};

async fn add(session: &Session, arguments: &Arguments) -> Result<Written, Error> {
    let container = arguments.need("container")?.to_owned();
    let ask = Request::new(request::ADD_BROKER).with("configPath", arguments.need("config")?);
    change_each(session, &[container], &ask, "add broker to {} success").await
}

async fn remove(session: &Session, arguments: &Arguments) -> Result<Written, Error> {
    let container = arguments.need("container")?.to_owned();
    let identity: Vec<&str> = arguments.need("identity")?.split(':').map(str::trim).collect();
    let [cluster, broker, id] = identity[..] else {
        return Err(Error::Usage("expected the broker as cluster:broker set:broker id".to_owned()));
    };
    if id.parse::<u64>().is_err() {
        return Err(Error::Usage(format!("expected a broker id of at least 0, found {id}")));
    }
    let ask = Request::new(request::REMOVE_BROKER)
        .with("brokerClusterName", cluster)
        .with("brokerName", broker)
        .with("brokerId", id);
    change_each(session, &[container], &ask, "remove broker from {} success").await
}
