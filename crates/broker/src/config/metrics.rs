//! Settings of metrics.

use std::time::Duration;

use super::value::{Fault, host, number, one_of};

/// Whether and how metrics leave the broker.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// `metricsExporterType`
    pub exporter: Exporter,
    /// `metricsPromExporterHost`: address of the metrics port; empty for `bindAddress`, or for the address of `brokerIP1` if
    /// `bindAddress` is every address.
    pub host: String,
    /// `metricsPromExporterPort`. 0 takes any free port.
    pub port: u16,
    /// `metricsLabel`: labels of every series, `name:value` separated by commas.
    pub labels: String,
    /// `metricsOtelCardinalityLimit`: most series of a metric. Further series are summed up in one series.
    pub series_max: usize,
    /// `metricsGrpcExporterTarget`: `http://HOST:PORT` or `https://HOST:PORT` of an OpenTelemetry collector; empty for none.
    pub otlp_target: String,
    /// `metricsGrpcExporterHeader`: headers of each export, `name:value` separated by commas.
    pub otlp_headers: String,
    /// `metricGrpcExporterTimeOutInMills`
    pub otlp_timeout: Duration,
    /// `metricGrpcExporterIntervalInMills`
    pub otlp_interval: Duration,
    /// `metricLoggingExporterIntervalInMills`
    pub log_interval: Duration,
    /// `metricsInDelta`: whether counts are exported as the increase since the last export.
    pub is_delta: bool,
    /// `metricsExportBatchMaxDataPoints`: most series in a request to the collector.
    pub batch_max: usize,
}

/// Exporter of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exporter {
    /// Metrics are not served.
    Disable,
    /// Metrics are sent to an OpenTelemetry collector.
    OtlpGrpc,
    /// Prometheus fetches them.
    Prom,
    /// Metrics are written to the log.
    Log,
}

impl Exporter {
    /// The words of the setting, Java's default first.
    pub(super) const WORDS: [(&str, Self); 4] =
        [("DISABLE", Self::Disable), ("OTLP_GRPC", Self::OtlpGrpc), ("PROM", Self::Prom), ("LOG", Self::Log)];

    /// Parses the type of exporter by name or by number (`MetricsExporterType`).
    pub(super) fn parse(text: &str) -> Result<Self, Fault> {
        let number = text.parse::<usize>().ok().and_then(|number| Self::WORDS.get(number));
        match number {
            Some((_, exporter)) => Ok(*exporter),
            None => one_of(&text.to_ascii_uppercase(), &Self::WORDS),
        }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            exporter: Exporter::Disable,
            host: String::new(),
            port: 5557,
            labels: String::new(),
            series_max: 50_000,
            otlp_target: String::new(),
            otlp_headers: String::new(),
            otlp_timeout: Duration::from_secs(3),
            otlp_interval: Duration::from_secs(60),
            log_interval: Duration::from_secs(10),
            is_delta: false,
            batch_max: 1000,
        }
    }
}

impl Metrics {
    /// The labels of `metricsLabel`, in the order of the setting.
    pub(crate) fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        pairs(&self.labels).flatten()
    }

    /// Parses the optional host of the exporter.
    pub(super) fn parse_host(text: &str) -> Result<String, Fault> {
        if text.is_empty() { Ok(String::new()) } else { host(text) }
    }

    /// Checks the labels of every series.
    pub(super) fn parse_labels(text: &str) -> Result<String, Fault> {
        match pairs(text).find_map(Result::err) {
            None => Ok(text.to_owned()),
            Some(pair) => {
                Err(Fault::Invalid(format!("name:value separated by commas, but there is {pair:?}")))
            }
        }
    }

    /// The headers of each export, in the order of the setting.
    pub(crate) fn otlp_headers(&self) -> impl Iterator<Item = (&str, &str)> {
        headers(&self.otlp_headers).flatten()
    }

    /// Checks the headers of exports.
    pub(super) fn parse_headers(text: &str) -> Result<String, Fault> {
        match headers(text).all(|header| header.is_ok()) {
            true => Ok(text.to_owned()),
            // The value may be a secret.
            false => Err(Fault::Invalid("name:value separated by commas".to_owned())),
        }
    }

    /// Checks the address of the collector. An address without a scheme uses TLS, as in Java.
    pub(super) fn parse_target(text: &str) -> Result<String, Fault> {
        let expected = || Fault::Invalid("http://HOST:PORT or https://HOST:PORT".to_owned());
        if text.is_empty() {
            return Ok(String::new());
        }
        let text = if text.contains("://") { text.to_owned() } else { format!("https://{text}") };
        let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
        let rest = rest.ok_or_else(expected)?.trim_end_matches('/');
        let (name, port) = rest.rsplit_once(':').ok_or_else(expected)?;
        number::<u16>(port, 1..=65_535).map_err(|_| expected())?;
        host(name.trim_matches(['[', ']'])).map_err(|_| expected())?;
        Ok(text.trim_end_matches('/').to_owned())
    }

    /// Parses the most series of a metric.
    pub(super) fn parse_series(text: &str) -> Result<usize, Fault> {
        number(text, 1..=i64::from(i32::MAX))
    }
}

/// The headers of the setting; an error stands for a part that is none.
fn headers(text: &str) -> impl Iterator<Item = Result<(&str, &str), ()>> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(|part| {
        let (name, value) = part.split_once(':').ok_or(())?;
        let (name, value) = (name.trim(), value.trim());
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let is_header =
            !name.is_empty() && name.bytes().all(is_letter) && value.bytes().all(|byte| byte >= b' ');
        if is_header { Ok((name, value)) } else { Err(()) }
    })
}

/// The labels of the setting; an error holds a part that is none.
fn pairs(text: &str) -> impl Iterator<Item = Result<(&str, &str), &str>> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(|part| {
        let (name, value) = part.split_once(':').ok_or(part)?;
        let (name, value) = (name.trim(), value.trim());
        let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
        let is_name = name.bytes().next().is_some_and(is_letter)
            && name.bytes().all(|byte| is_letter(byte) || byte.is_ascii_digit())
            && !name.starts_with("__");
        if is_name && !value.is_empty() { Ok((name, value)) } else { Err(part) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exporters_go_by_name_or_number() {
        let check = |text, expected| assert_eq!(Exporter::parse(text), Ok(expected), "{text}");
        ["PROM", "prom", "2"].into_iter().for_each(|text| check(text, Exporter::Prom));
        ["DISABLE", "0"].into_iter().for_each(|text| check(text, Exporter::Disable));
        ["OTLP_GRPC", "1"].into_iter().for_each(|text| check(text, Exporter::OtlpGrpc));
        ["log", "3"].into_iter().for_each(|text| check(text, Exporter::Log));
        assert!(matches!(Exporter::parse("7"), Err(Fault::Invalid(_))));
    }

    #[test]
    fn a_collector_without_a_scheme_is_reached_by_tls() {
        for (text, expected) in [
            ("", ""),
            ("http://c:4317", "http://c:4317"),
            ("http://[::1]:4317/", "http://[::1]:4317"),
            ("https://c:4317/", "https://c:4317"),
            ("c:4317", "https://c:4317"),
        ] {
            assert_eq!(Metrics::parse_target(text), Ok(expected.to_owned()));
        }
        for text in ["http://c", "http://c:0", "http://:4317", "ftp://c:4317", "c"] {
            assert!(matches!(Metrics::parse_target(text), Err(Fault::Invalid(_))), "{text}");
        }
    }

    #[test]
    fn headers_are_names_and_values_and_a_wrong_one_is_not_repeated() {
        let settings =
            Metrics { otlp_headers: "authorization: Basic a:b, x-scope:1".to_owned(), ..Metrics::default() };
        let found: Vec<_> = settings.otlp_headers().collect();
        assert_eq!(found, [("authorization", "Basic a:b"), ("x-scope", "1")]);
        let Err(Fault::Invalid(text)) = Metrics::parse_headers("secret") else { panic!("it is no header") };
        assert!(!text.contains("secret"));
        assert!(Metrics::parse_headers("a b:c").is_err());
    }

    #[test]
    fn labels_are_names_and_values() {
        let read = |text: &str| {
            let labels = Metrics::parse_labels(text)?;
            let settings = Metrics { labels, ..Metrics::default() };
            let pair = |(name, value): (&str, &str)| format!("{name}={value}");
            Ok::<_, Fault>(settings.labels().map(pair).collect::<Vec<_>>().join(" "))
        };
        assert_eq!(read("az:a1, instance:10.0.0.1:10911,"), Ok("az=a1 instance=10.0.0.1:10911".to_owned()));
        assert_eq!(read(""), Ok(String::new()));
        for wrong in ["az", "1a:b", "a-b:c", "a:", "__name__:x"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
