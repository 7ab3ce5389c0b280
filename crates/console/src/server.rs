//! The way of a request from its head to a page: host, session, method, form, answer.

use crate::answers::now_ms;
use crate::app::{App, Visitor};
use crate::assets;
use crate::guard::{self, check_host, check_origin, check_site, own_path};
use crate::pages::{self, Reply};
use crate::refusal::Refusal;
use crate::request::{Fields, cookie, decode, header_text, query};
use crate::users::{Role, random_hex};
use crate::view::{Page, document};
use crate::words::Lang;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use maud::html;
use serde_json::Value;
use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

type Response = http::Response<Full<Bytes>>;

/// Most bytes of a form, enough for a message of 4 MiB in percent-encoding.
const FORM_BYTES_MAX: usize = 13 << 20;
/// Most bytes of a form of a visitor without a session.
const LOGIN_BYTES_MAX: usize = 16 << 10;
/// Time within which a form must have come.
const FORM_TIMEOUT: Duration = Duration::from_secs(30);
/// Cookies of a session, of the language, and of the time zone, which `console.js` sets.
const SESSION: &str = "vostok_console";
const ZONE: &str = "vostok_zone";
const LANGUAGE: &str = "vostok_lang";
/// Cache policy of a file whose address changes with its content.
const KEPT: header::HeaderValue = header::HeaderValue::from_static("public, max-age=31536000, immutable");

/// Answers a request.
pub(crate) async fn handle(
    app: Arc<App>,
    peer: IpAddr,
    request: Request<Incoming>,
) -> Result<Response, Infallible> {
    Ok(answered(&app, peer, request).await)
}

async fn answered(app: &App, peer: IpAddr, request: Request<Incoming>) -> Response {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().to_owned();
    let is_api = path.starts_with("/api/v1/");
    let lang = language(&parts.headers);
    let checked = check_host(lang, &parts.headers, app.config.listens.ip(), &app.config.names);
    if let Err(refusal) = checked.and_then(|()| check_site(lang, &parts.headers, &path)) {
        return text(refusal.status, "text/plain; charset=utf-8", refusal.text);
    }
    if let Some(asset) = assets::find(&path) {
        let mut response = text(StatusCode::OK, asset.kind, asset.text);
        if asset.is_versioned {
            response.headers_mut().insert(header::CACHE_CONTROL, KEPT);
        }
        return response;
    }
    let fields = Fields::parse(parts.uri.query().unwrap_or_default());
    let (mut who, is_known) = match visitor(app, &parts.headers, peer) {
        Ok(found) => found,
        Err(error) => return text(StatusCode::INTERNAL_SERVER_ERROR, "text/plain", error.to_string()),
    };
    let address = Target { path: &path, query: parts.uri.query().unwrap_or_default() };
    let has_cookie = cookie(&parts.headers, SESSION).is_some();
    let mut cookies = new_cookies(&fields, &mut who);
    if (is_known || path == "/login") && cookie(&parts.headers, SESSION) != Some(&who.cookie) {
        cookies.push(session_cookie(app, &who.cookie));
    }
    let reply = match (parts.method, is_known) {
        (Method::GET | Method::HEAD, true) => get(app, &who, address, &fields).await,
        (Method::GET | Method::HEAD, false) if path == "/login" => {
            // Browsers keep the cookie of a session back when another site leads here, but not when this page sends itself on.
            let may_have_session =
                !has_cookie && fields.get("next").is_some() && fields.get("again").is_none();
            match may_have_session {
                true => Ok(Reply::Refresh(format!("/login{}", fields.with("again", "1")))),
                false => Ok(pages::login(&who, &fields, None)),
            }
        }
        (Method::GET | Method::HEAD, false) if !is_api => {
            let whole = parts.uri.path_and_query().map_or(path.as_str(), |whole| whole.as_str());
            Ok(Reply::Redirect(format!("/login{}", query([("next", whole)]))))
        }
        (Method::POST, is_known) if is_known || path == "/login" => {
            match form(app, (&who, is_known), &parts.headers, body).await {
                Ok(form) => pages::post(app, &who, &path, &form).await,
                Err(refusal) => Err(refusal),
            }
        }
        (_, true) => {
            Err(Refusal { status: StatusCode::METHOD_NOT_ALLOWED, text: "expected GET or POST".to_owned() })
        }
        (_, false) => Err(Refusal { status: StatusCode::UNAUTHORIZED, text: "expected a login".to_owned() }),
    };
    answer(app, (&who, address, is_api), reply, cookies)
}

/// Path and query of a request.
#[derive(Clone, Copy)]
struct Target<'a> {
    path: &'a str,
    query: &'a str,
}

async fn get(app: &App, who: &Visitor, address: Target<'_>, fields: &Fields) -> Result<Reply, Refusal> {
    let (path, is_api) = match address.path.strip_prefix("/api/v1") {
        Some("/overview") => ("/", true),
        Some(path) => (path, true),
        None => (address.path, false),
    };
    match path {
        "/language" => {
            let back = fields.get("back").and_then(own_path);
            Ok(Reply::Redirect(back.unwrap_or("/").to_owned()))
        }
        "/login" => {
            let next = fields.get("next").and_then(own_path);
            Ok(Reply::Redirect(next.unwrap_or("/").to_owned()))
        }
        "/report" => pages::report(app, fields).map(Reply::Report),
        "/message/body" => pages::body_file(app, who, fields).await,
        "/dlq/export" => pages::export(app, who, fields).await,
        path => pages::get(app, who, (path, is_api), fields).await.map(Reply::Page),
    }
}

/// Finds the visitor of a request, and whether the visitor is admitted.
fn visitor(app: &App, headers: &HeaderMap, address: IpAddr) -> io::Result<(Visitor, bool)> {
    let given = cookie(headers, SESSION).filter(|value| value.len() == 64);
    let cookie = given.map_or_else(|| random_hex(32), |value| Ok(value.to_owned()))?;
    let users = app.users.lock().expect("short section");
    let user = app.sessions.lock().expect("short section").user(&cookie, now_ms()).map(str::to_owned);
    let user = user.and_then(|name| users.get(&name).map(|user| (name, user.role, user.bodies)));
    let has_login = user.is_some();
    let is_open = users.is_empty() && app.config.listens.ip().is_loopback();
    let (name, role, bodies) = match user {
        Some(user) => user,
        None if is_open => ("local".to_owned(), Role::Admin, true),
        None => ("nobody".to_owned(), Role::Viewer, false),
    };
    let token = app.tokens.of(&cookie);
    let (lang, zone) = (language(headers), zone(headers));
    let who = Visitor { name, role, bodies, address, cookie, token, lang, zone, has_login };
    Ok((who, has_login || is_open))
}

/// The language that the visitor chose, otherwise the language of the browser.
fn language(headers: &HeaderMap) -> Lang {
    cookie(headers, LANGUAGE).and_then(Lang::of).unwrap_or_else(|| Lang::preferred(headers))
}

/// The time zone of the browser.
fn zone(headers: &HeaderMap) -> admin::Zone {
    cookie(headers, ZONE).and_then(|text| admin::Zone::parse(&decode(text))).unwrap_or_default()
}

/// The cookie of the language that `lang` of the query chooses.
fn new_cookies(fields: &Fields, who: &mut Visitor) -> Vec<String> {
    let mut cookies = Vec::new();
    if let Some(lang) = fields.get("lang").and_then(Lang::of) {
        who.lang = lang;
        cookies.push(format!("{LANGUAGE}={}; Path=/; SameSite=Strict; Max-Age=31536000", lang.code()));
    }
    cookies
}

fn session_cookie(app: &App, value: &str) -> String {
    let secure = if app.config.tls.is_some() { "; Secure" } else { "" };
    format!("{SESSION}={value}; Path=/; HttpOnly; SameSite=Strict{secure}")
}

/// Reads a form that changes something. Only pages of this console may send one.
async fn form(
    app: &App,
    (who, is_known): (&Visitor, bool),
    headers: &HeaderMap,
    body: Incoming,
) -> Result<Fields, Refusal> {
    check_origin(who.lang, headers, app.config.tls.is_some())?;
    let most = if is_known { FORM_BYTES_MAX } else { LOGIN_BYTES_MAX };
    let read = async {
        // Those who are not known cannot take the places of those who are.
        let _place = if is_known { Some(app.forms.acquire().await) } else { None };
        Limited::new(body, most).collect().await
    };
    let Ok(read) = tokio::time::timeout(FORM_TIMEOUT, read).await else {
        let text = format!("expected the whole form within {FORM_TIMEOUT:?}");
        return Err(Refusal { status: StatusCode::REQUEST_TIMEOUT, text });
    };
    let bytes = read.map_err(|_| Refusal::wrong(format!("expected a form of at most {most} bytes")))?;
    let bytes = bytes.to_bytes();
    let form = Fields::parse(&String::from_utf8_lossy(&bytes));
    let of_header = header_text(headers, HeaderName::from_static("x-csrf-token"));
    app.tokens.check(who.lang, &who.cookie, of_header.unwrap_or(form.text("_token")))?;
    Ok(form)
}

fn answer(
    app: &App,
    (who, address, is_api): (&Visitor, Target<'_>, bool),
    reply: Result<Reply, Refusal>,
    mut cookies: Vec<String>,
) -> Response {
    let mut response = match reply {
        Ok(Reply::Redirect(to)) => redirect(&to),
        Ok(Reply::Refresh(to)) => {
            // A new cookie would take the place of the one that the browser keeps back.
            cookies.clear();
            let body = html! { p { a href=(to) { (who.lang.say("Log in")) } } };
            let page = Page::new(who.lang.say("Log in"), Value::Null, body);
            let mut response = shown(app, who, (address, is_api), &page);
            if let Ok(value) = format!("0; url={to}").parse() {
                response.headers_mut().insert(header::REFRESH, value);
            }
            response
        }
        Ok(Reply::LoggedIn { cookie, to }) => {
            cookies = vec![session_cookie(app, &cookie)];
            redirect(&to)
        }
        Ok(Reply::Report(html)) => {
            let mut response = text(StatusCode::OK, "text/html; charset=utf-8", html);
            response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, guard::REPORT_POLICY);
            response
        }
        Ok(Reply::File { name, kind, bytes }) => {
            let mut response = text(StatusCode::OK, kind, bytes);
            if let Ok(value) = format!("attachment; filename=\"{name}\"").parse() {
                response.headers_mut().insert(header::CONTENT_DISPOSITION, value);
            }
            response
        }
        Ok(Reply::Page(page)) => shown(app, who, (address, is_api), &page),
        Err(refusal) => {
            let page = Page::refused(who.lang.say("Not served"), &refusal, html! {});
            shown(app, who, (address, is_api), &page)
        }
    };
    for cookie in cookies {
        if let Ok(value) = cookie.parse() {
            response.headers_mut().append(header::SET_COOKIE, value);
        }
    }
    response
}

fn shown(app: &App, who: &Visitor, (address, is_api): (Target<'_>, bool), page: &Page) -> Response {
    match is_api {
        true => text(page.status, "application/json", page.data.to_string()),
        false => {
            let health = app.live.health();
            let document = document(who, (address.path, address.query), page, &health);
            text(page.status, "text/html; charset=utf-8", document.into_string())
        }
    }
}

fn redirect(to: &str) -> Response {
    let mut response = text(StatusCode::SEE_OTHER, "text/plain", "");
    if let Ok(to) = to.parse() {
        response.headers_mut().insert(header::LOCATION, to);
    }
    response
}

fn text(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Response {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().extend(guard::HEADERS);
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}
