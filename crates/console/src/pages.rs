//! The pages by their paths.

mod access;
mod body;
mod brokers;
mod charts;
mod client;
mod clients;
mod command;
mod dead_letters;
mod findings;
mod forms;
mod group;
mod group_list;
mod list;
mod lite;
mod login;
mod logins;
mod messages;
mod names;
mod operations;
mod overview;
mod protobuf;
mod proxies;
mod replication;
mod runs;
mod runtime;
mod settings;
mod storage;
mod topic_list;
mod topics;
mod waiting;

pub(crate) use dead_letters::export;
pub(crate) use login::login;
pub(crate) use messages::body_file;
pub(crate) use runs::report;

use crate::app::{App, Visitor};
use crate::refusal::Refusal;
use crate::request::Fields;
use crate::view::Page;

/// The answer to a request.
pub(crate) enum Reply {
    Page(Page),
    Redirect(String),
    /// A page with a `Refresh` header that leads the browser to this address at once. Unlike after a redirect, the
    /// browser then sends its cookie.
    Refresh(String),
    /// A page that the lab wrote.
    Report(String),
    /// A file to keep, whose name has letters, digits, dots and dashes only.
    File {
        name: String,
        kind: &'static str,
        bytes: Vec<u8>,
    },
    /// A session began, or ended and another without a user began.
    LoggedIn {
        cookie: String,
        to: String,
    },
}

/// Returns the page of a path. For a path below `/api/v1` (`is_api`) only the data of the page is sent, as JSON.
///
/// # Errors
/// [`Refusal`] when there is no such page, the visitor may not look, or a server does not answer.
pub(crate) async fn get(
    app: &App,
    who: &Visitor,
    (path, is_api): (&str, bool),
    fields: &Fields,
) -> Result<Page, Refusal> {
    match path {
        "/" => Ok(overview::overview(app, who).await),
        "/live" => overview::live(app),
        "/health" => Ok(overview::health(app, who)),
        "/history" => charts::history(app, fields),
        "/brokers" => brokers::list(app, who).await,
        "/broker" => brokers::one(app, who, fields).await,
        "/settings" => settings::settings(app, who, fields).await,
        "/replication" => replication::replication(app, who).await,
        "/proxies" => proxies::proxies(app, who).await,
        "/runs" => runs::list(app, who, fields),
        "/run" => runs::one(app, who, fields),
        "/topics" => topic_list::list(app, who, fields).await,
        "/topic" => topics::one(app, who, fields).await,
        "/lite" => lite::one(app, who, fields).await,
        "/groups" => group_list::list(app, who, fields).await,
        "/group" => group::one(app, who, fields).await,
        "/client" => client::one(app, who, fields).await,
        "/storage" => storage::storage(app, who).await,
        "/delays" => waiting::delays(app, who).await,
        "/transactions" => waiting::transactions(app, who, fields).await,
        "/pops" => waiting::pops(app, who).await,
        "/access" => access::access(app, who).await,
        "/clients" => clients::clients(app, who, fields).await,
        "/messages" => messages::list(app, who, fields).await,
        "/message" => messages::one(app, who, fields).await,
        "/dlq" => dead_letters::list(app, who, fields).await,
        "/operations" => Ok(operations::list(who)),
        "/session" => logins::session(who),
        "/audit" => logins::audit(app, who),
        "/logins" => logins::logins(app, who, None),
        path => match path.strip_prefix("/op/").and_then(|rest| rest.split_once('/')) {
            Some(name) => operations::form(app, who, name, fields, is_api).await,
            None => Err(Refusal::missing(format!("there is no page {path}"))),
        },
    }
}

/// The answer to a form. The caller has checked where it comes from.
///
/// # Errors
/// [`Refusal`] when there is no such form, the visitor may not do it, or a server refuses or does not answer.
pub(crate) async fn post(app: &App, who: &Visitor, path: &str, form: &Fields) -> Result<Reply, Refusal> {
    let path = path.strip_prefix("/api/v1").unwrap_or(path);
    match path {
        "/login" => login::begin(app, who, form).await,
        "/look" => {
            app.live.want_verdict();
            Ok(Reply::Redirect("/".to_owned()))
        }
        "/logout" => login::end(app, who),
        "/dlq" => dead_letters::resend(app, who, form).await.map(Reply::Page),
        "/logins" => logins::change(app, who, form).await.map(Reply::Page),
        "/runs" => runs::change(app, who, form).map(Reply::Redirect),
        path => match path.strip_prefix("/op/").and_then(|rest| rest.split_once('/')) {
            Some(name) => operations::change(app, who, name, form).await.map(Reply::Page),
            None => Err(Refusal::missing(format!("there is no form {path}"))),
        },
    }
}
