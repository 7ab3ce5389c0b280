//! Cleaning that brokers do on request.

use crate::operation::Typed;
use crate::request::Request;
use crate::{Arguments, Error, Session};
use serde::Serialize;

/// Brokers that cleaned up.
#[derive(Serialize)]
pub(super) struct Cleaned {
    brokers: Vec<String>,
}

impl Typed for Cleaned {
    fn mqadmin(&self, _: &Arguments) -> String {
        "success\n".to_owned()
    }
}

pub(super) async fn clean(session: &Session, arguments: &Arguments, code: i32) -> Result<Cleaned, Error> {
    let targets = match arguments.get("broker") {
        Some(_) => session.targets(arguments).await?,
        None => session.members(arguments.get("cluster")).await?,
    };
    let brokers: Vec<_> = targets.into_iter().map(|broker| broker.address).collect();
    session.change_all(&brokers, &Request::new(code)).await?;
    Ok(Cleaned { brokers })
}
