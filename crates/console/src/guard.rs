//! Checks of browsers' requests: names of this server, own origins, CSRF tokens. Also the headers that limit the use of
//! answers.

use crate::refusal::Refusal;
use crate::request::header_text;
use crate::users::hex;
use crate::words::Lang;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use ring::hmac;
use std::net::{IpAddr, Ipv6Addr};

/// Content security policy of a report of the lab. The report runs its own style and script on an origin of its own, which has no
/// session of the console and reaches no server.
pub(crate) const REPORT_POLICY: HeaderValue = HeaderValue::from_static(
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; \
     form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
);
/// Headers of all answers. Nothing is loaded from elsewhere, and no script or style inside a page is run.
pub(crate) const HEADERS: [(header::HeaderName, HeaderValue); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
             form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        ),
    ),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (header::REFERRER_POLICY, HeaderValue::from_static("same-origin")),
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (header::VARY, HeaderValue::from_static("Cookie, Accept-Language")),
];

/// The host of a `Host` header without its port; `None` for a text that is no name or address with an optional port.
fn host_of(text: &str) -> Option<&str> {
    let (host, rest) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            host.parse::<Ipv6Addr>().ok()?;
            (host, rest)
        }
        None => {
            let (host, rest) = text.split_at(text.find(':').unwrap_or(text.len()));
            let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
            (Some(host).filter(|host| !host.is_empty() && host.bytes().all(is_name))?, rest)
        }
    };
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
    (rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port)).then_some(host)
}

/// Refuses a request without exactly one valid host (RFC 9112, 3.2), and a request for a host that is not this server.
/// A page of another site whose name was made to lead here (DNS rebinding) sends the name of its site. Addresses are
/// accepted, because they cannot be such a name.
pub(crate) fn check_host(
    lang: Lang,
    headers: &HeaderMap,
    listens: IpAddr,
    names: &[String],
) -> Result<(), Refusal> {
    let mut given = headers.get_all(header::HOST).iter();
    let host = match (given.next(), given.next()) {
        (Some(only), None) => only.to_str().ok().and_then(host_of),
        _ => None,
    };
    let Some(host) = host else {
        return Err(Refusal::wrong(lang.say("expected one Host header with a name or an address")));
    };
    let is_own = match host.parse::<IpAddr>() {
        Ok(address) => address.is_loopback() || !listens.is_loopback(),
        Err(_) => {
            host.eq_ignore_ascii_case("localhost") || names.iter().any(|name| host.eq_ignore_ascii_case(name))
        }
    };
    if is_own {
        return Ok(());
    }
    let text = lang.say("this console has another name; if it is to have this one too, start it with");
    Err(Refusal::forbidden(format!("{text} --console-name {host}")))
}

/// Refuses a request that a page of another site makes, because a console without logins needs no cookie for it. Links
/// to pages are allowed. Links to operations and exported files are not, because these may ask all brokers for all they
/// have.
pub(crate) fn check_site(lang: Lang, headers: &HeaderMap, path: &str) -> Result<(), Refusal> {
    let header = |name| header_text(headers, HeaderName::from_static(name));
    if header("sec-fetch-site") != Some("cross-site") {
        return Ok(());
    }
    let path = path.strip_prefix("/api/v1").unwrap_or(path);
    let is_costly = path.starts_with("/op/") || ["/dlq/export", "/message/body"].contains(&path);
    let is_page = header("sec-fetch-mode").is_none_or(|mode| mode == "navigate")
        && header("sec-fetch-dest").is_none_or(|dest| dest == "document");
    match is_page && !is_costly {
        true => Ok(()),
        false => Err(Refusal::forbidden(lang.say("operations are not opened from pages of other sites"))),
    }
}

/// Refuses a change that does not come from a page of this server. A server without TLS may have a proxy with TLS before it.
pub(crate) fn check_origin(lang: Lang, headers: &HeaderMap, has_tls: bool) -> Result<(), Refusal> {
    let host = header_text(headers, header::HOST).unwrap_or_default();
    let origin = header_text(headers, header::ORIGIN).unwrap_or_default();
    let own = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://").filter(|_| !has_tls));
    match own == Some(host) && !host.is_empty() {
        true => Ok(()),
        false => {
            let text = lang.say("only pages of this console change anything, and this form is not of one");
            Err(Refusal::forbidden(format!("{text}: Host {host}, Origin {origin:?}")))
        }
    }
}

/// A path of this server to which a browser may be sent on; nothing for an address elsewhere. Browsers take a backslash for a slash,
/// and pass over tabs and line ends.
pub(crate) fn own_path(text: &str) -> Option<&str> {
    let is_own = text.starts_with('/') && !text.starts_with("//");
    (is_own && !text.contains('\\') && !text.contains(char::is_control)).then_some(text)
}

/// Key of the CSRF tokens. A token is the HMAC of the visitor's cookie, and every request that changes something must
/// carry the token.
pub(crate) struct Tokens(hmac::Key);

impl Tokens {
    /// Creates the key of this process from random bytes.
    pub fn new(secret: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    /// The token that belongs to a cookie.
    pub fn of(&self, cookie: &str) -> String {
        hex(hmac::sign(&self.0, cookie.as_bytes()).as_ref())
    }

    /// Refuses a token that does not belong to the cookie.
    pub fn check(&self, lang: Lang, cookie: &str, token: &str) -> Result<(), Refusal> {
        let bytes: Option<Vec<u8>> = (0..token.len() / 2)
            .map(|at| u8::from_str_radix(token.get(2 * at..2 * at + 2)?, 16).ok())
            .collect();
        let is_own = bytes.is_some_and(|tag| hmac::verify(&self.0, cookie.as_bytes(), &tag).is_ok());
        match is_own && !cookie.is_empty() {
            true => Ok(()),
            false => Err(Refusal::forbidden(
                lang.say("the form is too old or not of this console; open the page again"),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(host: &str, origin: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        headers.insert(header::ORIGIN, origin.parse().unwrap());
        headers
    }

    #[test]
    fn only_own_names_and_addresses_are_hosts() {
        let (loopback, all) = (IpAddr::from([127, 0, 0, 1]), IpAddr::from([0, 0, 0, 0]));
        let names = ["console.example".to_owned()];
        let is_own =
            |host: &str, listens| check_host(Lang::En, &headers(host, "null"), listens, &names).is_ok();
        for host in ["127.0.0.1:8082", "localhost:8082", "[::1]:8082", "LOCALHOST", "Console.Example:1"] {
            assert!(is_own(host, loopback), "{host}");
        }
        for host in ["evil.example:8082", "10.0.0.1:8082", "localhost.evil.example"] {
            assert!(!is_own(host, loopback), "{host}");
        }
        assert!(is_own("10.0.0.1:8082", all) && !is_own("evil.example", all));
        let status = |headers: &HeaderMap| check_host(Lang::En, headers, all, &names).map_err(|it| it.status);
        let wrong = Err(http::StatusCode::BAD_REQUEST);
        for host in [
            "",
            ":8082",
            "::1",
            "[::1].evil",
            "[::1]evil:8082",
            "[::1",
            "[127.0.0.1]",
            "[localhost]",
            "localhost:",
            "localhost:80:80",
            "localhost:+80",
            "localhost:65536",
            "localhost:80.evil",
            "user@localhost",
            "localhost/",
            "localhost, evil.example",
            "127.0.0.1:8082 ",
        ] {
            assert_eq!(status(&headers(host, "null")), wrong, "{host}");
        }
        let mut two = headers("localhost", "null");
        two.append(header::HOST, "evil.example".parse().unwrap());
        assert_eq!(status(&two), wrong);
        assert_eq!(status(&HeaderMap::new()), wrong);
    }

    #[test]
    fn only_own_origins_change_anything() {
        let is_own = |host: &str, origin: &str| check_origin(Lang::En, &headers(host, origin), false).is_ok();
        assert!(is_own("localhost:8082", "http://localhost:8082") && is_own("a", "https://a"));
        for origin in ["http://evil.example", "null", "", "http://localhost:1", "localhost:8082"] {
            assert!(!is_own("localhost:8082", origin), "{origin}");
        }
        assert!(check_origin(Lang::En, &HeaderMap::new(), false).is_err());
        let with_tls = |origin: &str| check_origin(Lang::En, &headers("a", origin), true).is_ok();
        assert!(with_tls("https://a") && !with_tls("http://a"));
    }

    #[test]
    fn other_sites_lead_to_no_operation() {
        let is_served = |site: &str, path: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("sec-fetch-site", site.parse().unwrap());
            check_site(Lang::En, &headers, path).is_ok()
        };
        for path in ["/op/group/monitor", "/api/v1/op/group/monitor"] {
            assert!(!is_served("cross-site", path), "{path}");
            assert!(is_served("same-origin", path) && is_served("none", path), "{path}");
            assert!(check_site(Lang::En, &HeaderMap::new(), path).is_ok(), "a program");
        }
        assert!(is_served("cross-site", "/topic"));
        for path in ["/dlq/export", "/message/body"] {
            assert!(!is_served("cross-site", path) && is_served("same-origin", path), "{path}");
        }
        let of = |mode: &str, dest: &str, path: &str| {
            let given =
                [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", mode), ("sec-fetch-dest", dest)];
            let headers = given.map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()));
            check_site(Lang::En, &HeaderMap::from_iter(headers), path).is_ok()
        };
        assert!(of("navigate", "document", "/messages") && of("navigate", "document", "/api/v1/topics"));
        assert!(!of("no-cors", "image", "/messages") && !of("navigate", "iframe", "/messages"));
    }

    #[test]
    fn browsers_are_sent_on_to_own_pages_only() {
        for own in ["/", "/topic?name=%5C&by=//x", "/a//b"] {
            assert_eq!(own_path(own), Some(own));
        }
        for elsewhere in [
            "",
            "x",
            "//evil.example",
            "/\\evil.example",
            "/\t/evil.example",
            "/\n/evil.example",
            "http://evil.example",
        ] {
            assert_eq!(own_path(elsewhere), None, "{elsewhere:?}");
        }
    }

    #[test]
    fn a_token_belongs_to_one_cookie() {
        let tokens = Tokens::new(b"secret");
        let token = tokens.of("cookie");
        assert!(tokens.check(Lang::En, "cookie", &token).is_ok());
        for (cookie, token) in
            [("other", token.as_str()), ("cookie", ""), ("cookie", "zz"), ("", &tokens.of(""))]
        {
            assert!(tokens.check(Lang::En, cookie, token).is_err(), "{cookie} {token}");
        }
        assert!(Tokens::new(b"another").check(Lang::En, "cookie", &token).is_err());
    }

    #[test]
    fn refusals_are_in_the_language_of_the_visitor() {
        let foreign = headers("evil.example", "null");
        let (address, mut linked) = (IpAddr::from([127, 0, 0, 1]), HeaderMap::new());
        linked.insert("sec-fetch-site", "cross-site".parse().unwrap());
        let refused = |lang| {
            [
                check_host(lang, &foreign, address, &[]),
                check_site(lang, &linked, "/op/topic/list"),
                check_origin(lang, &foreign, false),
                Tokens::new(b"secret").check(lang, "cookie", ""),
            ]
            .map(|checked| checked.unwrap_err().text)
        };
        assert!(refused(Lang::En).iter().all(|text| text.is_ascii()), "{:?}", refused(Lang::En));
        assert!(!refused(Lang::Zh).iter().any(|text| text.is_ascii()), "{:?}", refused(Lang::Zh));
    }
}
