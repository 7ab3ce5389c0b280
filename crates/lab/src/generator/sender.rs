//! Sends the requests of a producing connection over gRPC: a call for each, as many at a time as requests are in flight.

use super::endpoint::{Endpoint, Session, WAIT, accepted};
use super::mix::Mix;
use crate::load::{Alarm, Answers, Connection, pause, requests};
use bytes::Bytes;
use grpc::messages::{ClientType, PubSub, Publishing, Resource, SendMessageResponse, Settings};
use grpc::{Channel, Failure, Method};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::spawn_local;

/// Interval between two attempts to connect.
const RETRY: Duration = Duration::from_millis(200);

/// Answers of a wake-up, which calls leave for the task that sends.
#[derive(Default)]
struct Arrived {
    answers: RefCell<Answers>,
    woken: Notify,
}

/// Connects as client number `number`, and again whenever the connection ends, until its work is done. To be called on
/// the thread of the connection.
pub(super) async fn keep_connected(
    endpoint: Endpoint,
    number: u32,
    topics: Vec<String>,
    connection: Arc<Connection<Mix>>,
) {
    let topics = topics.into_iter().map(Resource::named).collect();
    let publishing = Publishing { topics, ..Publishing::default() };
    let settings = Settings {
        client_type: Some(ClientType::Producer.into()),
        pub_sub: Some(PubSub::Publishing(publishing)),
        ..Settings::default()
    };
    while !connection.is_done() {
        match endpoint.session(number, settings.clone()).await {
            Ok(session) => {
                // A connection that ends is made again.
                let _ = send(session, &connection).await;
                connection.abandon();
            }
            Err(failure) => {
                if let Failure::Status { code, message } = failure {
                    connection.tally().refused_with(code, Some(&message));
                }
                connection.unreachable();
            }
        }
        if !connection.is_done() {
            tokio::time::sleep(RETRY).await;
        }
    }
}

/// Sends until the work is done or the connection ends.
async fn send(mut session: Session, connection: &Arc<Connection<Mix>>) -> Result<(), Failure> {
    let method = session.channel.method("SendMessage", Some(WAIT))?;
    let alarm = Alarm::of(connection);
    let arrived = Rc::<Arrived>::default();
    let mut out = Vec::new();
    connection.issue_due(connection.clock().now_ns(), &mut out);
    while !connection.is_done() {
        for (opaque, message) in requests(&mut out) {
            let called = call(session.channel.clone(), method.clone(), message);
            let (arrived, connection) = (arrived.clone(), connection.clone());
            spawn_local(async move {
                let is_stored = match called.await {
                    Ok(()) => true,
                    Err(Failure::Status { code, message }) => {
                        connection.tally().refused_with(code, Some(&message));
                        false
                    }
                    // No answer: the request is given up in time, or with its connection.
                    Err(Failure::Connection(_)) => return,
                };
                arrived.answers.borrow_mut().push(opaque, is_stored);
                arrived.woken.notify_one();
            });
        }
        tokio::select! {
            () = arrived.woken.notified() => connection.settle(&mut arrived.answers.borrow_mut(), &mut out),
            () = pause(connection, alarm.as_ref()) => {
                let now_ns = connection.clock().now_ns();
                connection.expire(now_ns);
                connection.issue_due(now_ns, &mut out);
            }
            () = connection.changed() => {}
            () = session.ended() => break,
        }
    }
    Ok(())
}

/// Sends one message. A message that the server did not store is a [`Failure::Status`] with the server's code.
async fn call(channel: Channel, method: Method, message: Bytes) -> Result<(), Failure> {
    let answer: SendMessageResponse = channel.call(&method, message).await?.only().await?;
    accepted(answer.status.as_ref())
        .map_err(|refusal| Failure::Status { code: refusal.code, message: refusal.remark })
}
