//! Logging in and out.

use super::Reply;
use crate::answers::now_ms;
use crate::app::{App, Visitor};
use crate::guard::own_path;
use crate::refusal::Refusal;
use crate::request::Fields;
use crate::users::random_hex;
use crate::view::{Page, token};
use auth::ResponseTime;
use http::StatusCode;
use maud::html;
use serde_json::Value;
use std::time::Duration;

/// The page with the form for name and password, and the failure of the last attempt.
pub(crate) fn login(who: &Visitor, fields: &Fields, failure: Option<&str>) -> Reply {
    let lang = who.lang;
    let body = html! {
        @if let Some(text) = failure { p.failure role="alert" { "✗ " (text) } }
        form.stacked method="post" action="/login" {
            (token(who))
            input type="hidden" name="next" value=(fields.text("next"));
            label { span { (lang.say("Name")) } input name="name" autocomplete="username" required autofocus; }
            label { span { (lang.say("Password")) } input name="password" type="password" autocomplete="current-password" required; }
            button { (lang.say("Log in")) }
        }
    };
    Reply::Page(Page::new(lang.say("Log in"), Value::Null, body))
}

/// Begins a session. An address with many attempts waits before its password is checked. So an address can try one password a
/// second, and a wrong password costs no more processor time than a right password.
pub(super) async fn begin(app: &App, who: &Visitor, form: &Fields) -> Result<Reply, Refusal> {
    let name = form.text("name").to_owned();
    let turn = app.failures.record_failure(now_ms(), who.address, &name, None);
    match turn {
        ResponseTime::Now => {}
        ResponseTime::After(ms) => tokio::time::sleep(Duration::from_millis(ms.unsigned_abs())).await,
        ResponseTime::Never => return Err(too_many(who)),
    }
    let Ok(permit) = app.logins.acquire().await else { return Err(too_many(who)) };
    let (users, password) =
        (app.users.lock().expect("short section").clone(), form.text("password").to_owned());
    let checked = name.clone();
    // Deriving a key takes long on purpose.
    let is_right =
        tokio::task::spawn_blocking(move || users.check(&checked, &password)).await.unwrap_or(false);
    drop(permit);
    let attempted = Visitor { name: name.chars().take(64).collect(), ..who.clone() };
    if !is_right {
        // A flood of attempts must not push older lines out of the log.
        if turn == ResponseTime::Now {
            app.note(&attempted, "login", "refused")?;
        }
        return Ok(login(who, form, Some(who.lang.say("Name or password is wrong"))));
    }
    app.note(&attempted, "login", "done")?;
    let next = form.get("next").and_then(own_path);
    let cookie = random_hex(32).map_err(|error| Refusal::wrong(error.to_string()))?;
    app.sessions.lock().expect("short section").begin(cookie.clone(), &name, now_ms());
    Ok(Reply::LoggedIn { cookie, to: next.unwrap_or("/").to_owned() })
}

fn too_many(who: &Visitor) -> Refusal {
    let text = who.lang.say("Too many attempts to log in; wait a minute").to_owned();
    Refusal { status: StatusCode::TOO_MANY_REQUESTS, text }
}

/// Ends the session.
pub(super) fn end(app: &App, who: &Visitor) -> Result<Reply, Refusal> {
    app.sessions.lock().expect("short section").end(&who.cookie);
    let cookie = random_hex(32).map_err(|error| Refusal::wrong(error.to_string()))?;
    Ok(Reply::LoggedIn { cookie, to: "/login".to_owned() })
}
