//! HTTP/1.1 as far as a scrape needs it: a GET or HEAD per connection, and a response with its length.

/// Most bytes of a request's head.
pub(super) const HEAD_BYTES_MAX: usize = 8 << 10;

/// Requested page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Page {
    /// `/metrics`.
    Metrics,
    /// `/metrics/exporter`: with the names of the separate rocketmq-exporter.
    ExporterMetrics,
    /// `/healthz`: whether the broker works, or needs a restart.
    Health,
    /// `/readyz`: whether the broker serves clients.
    Readiness,
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub page: Page,
    /// Whether the client wants only the head of the response.
    pub is_head: bool,
    /// Whether the client reads bodies in chunks, which came with HTTP/1.1.
    pub reads_chunks: bool,
}

/// Result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Ok,
    BadRequest,
    NotFound,
    MethodNotAllowed,
    HeadTooLong,
    Unavailable,
}

impl Status {
    /// Code and reason of the status line.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Ok => "200 OK",
            Self::BadRequest => "400 Bad Request",
            Self::NotFound => "404 Not Found",
            Self::MethodNotAllowed => "405 Method Not Allowed",
            Self::HeadTooLong => "431 Request Header Fields Too Large",
            Self::Unavailable => "503 Service Unavailable",
        }
    }
}

/// Whether the head of a request is complete.
pub(super) fn is_whole(head: &[u8]) -> bool {
    head.windows(4).any(|end| end == b"\r\n\r\n")
}

/// Reads the request line.
///
/// # Errors
/// The status of a request that cannot be served.
pub(super) fn parse(head: &[u8]) -> Result<Request, Status> {
    if !is_whole(head) {
        return Err(Status::HeadTooLong);
    }
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let line = std::str::from_utf8(line).map_err(|_| Status::BadRequest)?;
    let mut words = line.split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(Status::BadRequest);
    };
    if !version.starts_with("HTTP/1.") {
        return Err(Status::BadRequest);
    }
    let is_head = method == "HEAD";
    if !is_head && method != "GET" {
        return Err(Status::MethodNotAllowed);
    }
    let page = match target.split('?').next().unwrap_or_default() {
        "/metrics" => Page::Metrics,
        "/metrics/exporter" => Page::ExporterMetrics,
        "/healthz" => Page::Health,
        "/readyz" => Page::Readiness,
        _ => return Err(Status::NotFound),
    };
    Ok(Request { page, is_head, reads_chunks: version != "HTTP/1.0" })
}

/// The bytes of an answer, after which the connection is closed.
pub(super) fn response(status: Status, content_type: &str, body: &str, is_head: bool) -> Vec<u8> {
    let mut text = format!(
        "HTTP/1.1 {}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        status.reason(),
        body.len()
    );
    if !is_head {
        text.push_str(body);
    }
    text.into_bytes()
}

/// Returns the head of a response whose body follows in parts, until the connection is closed or, in chunks, until
/// [`LAST_CHUNK`].
pub(super) fn head_of_parts(content_type: &str, in_chunks: bool) -> Vec<u8> {
    let encoding = if in_chunks { "Transfer-Encoding: chunked\r\n" } else { "" };
    format!("HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\n{encoding}Connection: close\r\n\r\n")
        .into_bytes()
}

/// Makes a chunk of a body's part. An empty chunk would end the body.
pub(super) fn chunk(part: &str) -> Vec<u8> {
    if part.is_empty() { Vec::new() } else { format!("{:x}\r\n{part}\r\n", part.len()).into_bytes() }
}

/// End of a body in chunks. A body without it is truncated.
pub(super) const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_served_or_refused() {
        let ask = |line: &str| parse(format!("{line}\r\nHost: x\r\n\r\n").as_bytes());
        let page = |page, is_head| Ok(Request { page, is_head, reads_chunks: true });
        assert_eq!(ask("GET /metrics HTTP/1.1"), page(Page::Metrics, false));
        assert_eq!(ask("GET /metrics?name=x HTTP/1.1"), page(Page::Metrics, false));
        let whole = Request { page: Page::Metrics, is_head: false, reads_chunks: false };
        assert_eq!(ask("GET /metrics HTTP/1.0"), Ok(whole));
        assert_eq!(ask("GET /metrics/exporter HTTP/1.1"), page(Page::ExporterMetrics, false));
        assert_eq!(ask("HEAD /healthz HTTP/1.1"), page(Page::Health, true));
        assert_eq!(ask("GET /readyz HTTP/1.1"), page(Page::Readiness, false));
        assert_eq!(ask("GET / HTTP/1.1"), Err(Status::NotFound));
        assert_eq!(ask("POST /metrics HTTP/1.1"), Err(Status::MethodNotAllowed));
        assert_eq!(ask("GET /metrics"), Err(Status::BadRequest));
        assert_eq!(ask("GET /metrics HTTP/2"), Err(Status::BadRequest));
        assert_eq!(parse(b"GET /metrics HTTP/1.1\r\n"), Err(Status::HeadTooLong));
        assert_eq!(parse(b"\xff\xff\r\n\r\n"), Err(Status::BadRequest));
    }

    #[test]
    fn an_answer_tells_its_length() {
        let answer = response(Status::Ok, "text/plain", "body", false);
        assert_eq!(
            String::from_utf8(answer).unwrap(),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbody"
        );
        assert!(response(Status::NotFound, "text/plain", "body", true).ends_with(b"\r\n\r\n"));
    }
}
