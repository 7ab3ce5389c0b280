//! The stream of settings and commands between a client and the server: Telemetry (`ClientActivity.telemetry`).

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use grpc::messages::{Code, Command, PubSub, Settings, Status, TelemetryCommand, name};
use serde_json::json;
use tonic::{Status as GrpcStatus, Streaming};

use super::{Call, clients, lite};
use crate::failure::{Failure, Result};
use crate::registry::{Client, ClientSettings, Writer, answer};
use crate::{checks, settings};

/// Time in which a client opens another stream after its stream broke. The Java client waits a second.
const RETURN: Duration = Duration::from_secs(3);

/// Serves the stream until a side ends it. A stream lasts for its client's life and rarely carries commands. So its
/// state is small, and the handler of a command is boxed.
#[expect(
    clippy::manual_async_fn,
    reason = "an async function keeps its arguments twice, and thousands of streams wait"
)]
pub fn serve(
    call: Call,
    mut inbound: Streaming<TelemetryCommand>,
    writer: Writer,
) -> impl Future<Output = ()> {
    async move {
        let mut client = None;
        let is_lost = loop {
            // Boxed before it is awaited, so that a stream has no room for a decoded command.
            let taken = {
                let command = tokio::select! {
                    command = inbound.message() => command,
                    () = writer.closed() => break true,
                    () = call.proxy.stopping() => break false,
                };
                let is_broken = command.is_err();
                let Ok(Some(message)) = command else { break is_broken };
                Box::pin(take(&call, &mut client, &writer, message))
            };
            if taken.await.is_break() {
                break false;
            }
        };
        // A client with a broken stream counts as gone unless it opens another stream. A client that ended its stream
        // opens another stream, or announces that it leaves.
        if let Some(client) = client
            && client.leave(&writer)
            && is_lost
        {
            Box::pin(async {
                tokio::select! {
                    () = tokio::time::sleep(RETURN) => {}
                    () = call.proxy.stopping() => return,
                }
                if !client.is_reachable() && !client.is_gone() {
                    lite::unsubscribe(&call.proxy.brokers, &client).await;
                }
            })
            .await;
        }
    }
}

/// Informs a client that its call is refused.
pub async fn refuse(failure: &Failure, writer: &Writer) {
    let refused = TelemetryCommand { status: Some(failure.status()), command: None };
    // The stream may have ended meanwhile.
    let _ = writer.send(Ok(Box::new(refused))).await;
}

/// Processes a command of a client. Returns whether the stream continues.
async fn take(
    call: &Call,
    client: &mut Option<Arc<Client>>,
    writer: &Writer,
    message: TelemetryCommand,
) -> ControlFlow<()> {
    if let Err(failure) = call.authorize(&message) {
        refuse(&failure, writer).await;
        return ControlFlow::Break(());
    }
    let TelemetryCommand { status, command: Some(command) } = message else { return ControlFlow::Break(()) };
    if let Err(failure) = perform(call, client, writer, (status, command)).await {
        let _ = writer.send(Err(ended(&failure))).await;
        return ControlFlow::Break(());
    }
    ControlFlow::Continue(())
}

/// The status with which a stream ends because of a command that failed.
fn ended(failure: &Failure) -> GrpcStatus {
    if failure.message == NO_PUB_SUB {
        return GrpcStatus::invalid_argument(NO_PUB_SUB);
    }
    let text = format!("process client telemetryCommand failed. {}", failure.message);
    match failure.code as i32 {
        40_000..50_000 => GrpcStatus::invalid_argument(text),
        _ => GrpcStatus::internal(text),
    }
}

/// Text for settings of neither a producer nor a consumer.
const NO_PUB_SUB: &str = "there is no publishing or subscription data in settings";

async fn perform(
    call: &Call,
    client: &mut Option<Arc<Client>>,
    writer: &Writer,
    (status, command): (Option<Status>, Command),
) -> Result<()> {
    match command {
        Command::Settings(stated) => {
            let entered = call.proxy.registry.enter(&call.client_id, &call.caller)?;
            *client = Some(entered.clone());
            let settings = settle(call, &entered, writer, stated).await?;
            let reply =
                TelemetryCommand { status: Some(Status::ok()), command: Some(Command::Settings(settings)) };
            // The stream may have ended meanwhile.
            let _ = writer.send(Ok(Box::new(reply))).await;
        }
        Command::ThreadStackTrace(trace) => {
            let body = json!({ "jstack": trace.thread_stack_trace.unwrap_or_default() }).to_string();
            if let Some(client) = client {
                client.answered(&trace.nonce, answer(status, body.into_bytes()));
            }
        }
        Command::VerifyMessageResult(result) => {
            if let Some(client) = client {
                client.answered(&result.nonce, verified(status));
            }
        }
        _ => {}
    }
    Ok(())
}

/// Converts the status of a client that consumed a message at an operator's request
/// (`consumeMessageDirectly`).
fn verified(status: Option<Status>) -> broker::api::ClientAnswer {
    let code = status.as_ref().and_then(|status| Code::try_from(status.code).ok());
    let result = match code {
        None | Some(Code::Ok) => "CR_SUCCESS",
        Some(Code::FailedToConsumeMessage) => "CR_LATER",
        Some(Code::MessageCorrupted) => "CR_RETURN_NULL",
        Some(_) => return answer(status, Vec::new()),
    };
    let body = json!({ "consumeResult": result, "remark": "from gRPC client" }).to_string();
    answer(None, body.into_bytes())
}

/// Checks the settings of a client, registers it, and returns the settings completed.
async fn settle(call: &Call, client: &Arc<Client>, writer: &Writer, stated: Settings) -> Result<Settings> {
    let brokers = &call.proxy.brokers;
    match &stated.pub_sub {
        Some(PubSub::Publishing(publishing)) => {
            publishing.topics.iter().try_for_each(|topic| checks::topic(&topic.name))?;
        }
        Some(PubSub::Subscription(subscription)) => checks::group(name(&subscription.group))?,
        None => return Err(Failure::new(Code::BadRequest, NO_PUB_SUB)),
    }
    let mut stated = ClientSettings { settings: stated, at_ms: brokers.now_ms() };
    clients::register(call, client, &stated).await?;
    let config = &call.proxy.config;
    stated.settings = match &stated.settings.pub_sub {
        Some(PubSub::Subscription(subscription)) => {
            let group = brokers.group(name(&subscription.group)).await?.unwrap_or_default();
            settings::of_consumer(config, stated.settings.clone(), &group)
        }
        _ => settings::of_producer(config, stated.settings),
    };
    client.set_settings(stated.clone(), writer);
    if let Some(PubSub::Publishing(_)) = &stated.settings.pub_sub {
        brokers.producer_stated();
    }
    Ok(stated.settings)
}
