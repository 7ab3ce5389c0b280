//! Logins of the console, and the audit log of their actions.

use crate::app::{App, Visitor};
use crate::audit::Line;
use crate::refusal::Refusal;
use crate::request::Fields;
use crate::users::Role;
use crate::view::{Column, Page, Table, ago, answer, empty, token};
use clap::ValueEnum;
use maud::html;
use serde::Deserialize as _;
use serde_json::{Value, json};

/// Page with the user of the session, and the token for changes by programs.
pub(super) fn session(who: &Visitor) -> Result<Page, Refusal> {
    let Visitor { name, role, bodies, token, .. } = who;
    let data = json!({"user": name, "role": role, "bodies": bodies, "token": token});
    Ok(Page::new("Session", data.clone(), html! { (answer(who.lang, &data)) }))
}

/// The last lines of the audit log. Only an administrator sees them, because they name the actions of others.
pub(super) fn audit(app: &App, who: &Visitor) -> Result<Page, Refusal> {
    needs_admin(who)?;
    let lines = app.audit.lock().expect("short section").lines().cloned().collect::<Vec<_>>();
    let lang = who.lang;
    let columns = ["Time", "User", "Address", "Action", "Outcome"].map(|title| Column::text(lang.say(title)));
    let rows = lines.iter().filter_map(|line| Line::deserialize(line).ok()).map(|line| {
        let texts = [line.user, line.address, line.action, line.outcome].map(|text| html! { (text) });
        let time_ms = admin::parse_time(&line.time).unwrap_or_default();
        [ago(lang, time_ms)].into_iter().chain(texts).collect::<Vec<_>>()
    });
    let none = empty(lang, lang.say("Changes that are made with this console are noted here"));
    let body = html! { (Table::new(columns).rows(rows).or(none)) };
    Ok(Page::new(who.lang.say("Audit"), json!(lines), body))
}

/// The logins of the console. `told` is the name and the password of a new login, which are shown once.
pub(super) fn logins(
    app: &App,
    who: &Visitor,
    new_password: Option<(&str, String)>,
) -> Result<Page, Refusal> {
    needs_admin(who)?;
    let lang = who.lang;
    let users = app.users.lock().expect("short section").clone();
    let data: Vec<Value> = users
        .all()
        .map(|(name, user)| json!({"user": name, "role": user.role, "bodies": user.bodies}))
        .collect();
    let columns = ["Name", "Role", "May see bodies of messages"].map(|title| Column::text(lang.say(title)));
    let rows = users.all().map(|(name, user)| {
        let bodies = if user.bodies { lang.say("yes") } else { lang.say("no") };
        vec![html! { (name) }, html! { (user.role.name()) }, html! { (bodies) }]
    });
    let none = empty(lang, lang.say("Nobody has to log in, because only this machine is served"));
    let body = html! {
        @if let Some((name, password)) = &new_password {
            p.success role="status" { "✓ " (name) ": " code { (password) } " - " (lang.say("The password is shown only now")) }
        }
        (Table::new(columns).rows(rows).or(none))
        h2 { (lang.say("Add or remove a login")) }
        form.stacked method="post" action="/logins" {
            (token(who))
            label { span { (lang.say("Name")) } input name="name" required maxlength="64" autocomplete="off"; }
            label { span { (lang.say("Role")) } select name="role" {
                @for role in Role::value_variants() { option { (role.name()) } }
            } }
            label.check { input type="checkbox" name="bodies" value="true"; span { (lang.say("May see bodies of messages")) } }
            div.actions {
                button name="what" value="set" { (lang.say("Add")) }
                button.danger name="what" value="remove" { (lang.say("Remove")) }
            }
        }
    };
    Ok(Page::new(lang.say("Logins"), json!(data), body))
}

/// Adds or removes a login.
pub(super) async fn change(app: &App, who: &Visitor, form: &Fields) -> Result<Page, Refusal> {
    needs_admin(who)?;
    let lang = who.lang;
    let name =
        form.get("name").filter(|name| name.chars().all(|it| it.is_alphanumeric() || "._-@".contains(it)));
    let name =
        name.ok_or_else(|| Refusal::wrong(lang.say("expected a name of letters, digits and . _ - @")))?;
    let role = Role::from_str(form.text("role"), true).map_err(Refusal::wrong)?;
    let mut users = app.users.lock().expect("short section").clone();
    if users.is_empty() && (role != Role::Admin || form.text("what") != "set") {
        return Err(Refusal::wrong(
            lang.say("the first login must be an admin's, because from then on everybody has to log in"),
        ));
    }
    let failed = |error: std::io::Error| Refusal::wrong(error.to_string());
    let removes = form.text("what") == "remove";
    let is_last = users.all().all(|(other, user)| other == name || user.role != Role::Admin);
    if is_last && (removes || role != Role::Admin) {
        return Err(Refusal::wrong(lang.say("nobody would be admin any more")));
    }
    if removes {
        app.note(who, &format!("console user {name} remove"), "begun")?;
        users.remove(name).map_err(failed)?;
        *app.users.lock().expect("short section") = users;
        app.sessions.lock().expect("short section").end_all_of(name);
        return logins(app, who, None);
    }
    app.note(who, &format!("console user {name} {}", role.name()), "begun")?;
    let password = users.set(name, role, form.get("bodies").is_some()).map_err(failed)?;
    *app.users.lock().expect("short section") = users;
    // A new password is given because another person may know the old one.
    app.sessions.lock().expect("short section").end_all_of(name);
    logins(app, who, Some((name, password)))
}

fn needs_admin(who: &Visitor) -> Result<(), Refusal> {
    match who.role {
        Role::Admin => Ok(()),
        _ => Err(Refusal::forbidden(who.lang.say("Your role does not allow this"))),
    }
}
