//! Settings of metrics.

use std::time::Duration;

use wire::settings::{Codec, Exact, Fault, FunctionCodec, Milliseconds, SecretCodec};

use super::value::{DAY_MS, INT_MAX, host, optional_host};

wire::settings! {
    /// Whether and how metrics leave the broker.
    #[derive(Clone, Debug)]
    pub struct Metrics {
        "metricsExporterType" Restart exporter: Exporter = Exporter::Disable, [(Exporter::parse, |exporter: &Exporter| Exporter::WORDS.show(exporter))], "PROM serves metrics to Prometheus at metricsPromExporterPort, OTLP_GRPC sends them to the collector metricsGrpcExporterTarget, LOG writes them to the log, DISABLE does none of it";
        "metricsPromExporterHost" Restart host: String = String::new(), [FunctionCodec(optional_host)], "address of the metrics port; by default bindAddress if that is one address, otherwise the address of brokerIP1";
        "metricsPromExporterPort" Restart port: u16 = 5557, [Exact(0..=65_535)], "port of /metrics, /healthz and /readyz; 0 takes a free one";
        "metricsLabel" Restart labels: String = String::new(), [FunctionCodec(Metrics::parse_labels)], "labels of every metric, name:value separated by commas";
        "metricsOtelCardinalityLimit" Restart series_max: usize = 50_000, [1..=INT_MAX], "most series of one metric; further ones are summed up in one with the label otel_metric_overflow";
        "metricsGrpcExporterTarget" Restart otlp_target: String = String::new(), [FunctionCodec(Metrics::parse_target)], "http://HOST:PORT or https://HOST:PORT of an OpenTelemetry collector; without it OTLP_GRPC exports nothing";
        "metricsGrpcExporterHeader" Restart otlp_headers: String = String::new(), [SecretCodec(FunctionCodec(Metrics::parse_headers))], "headers of every export to the collector, name:value separated by commas";
        "metricGrpcExporterTimeOutInMills" Restart otlp_timeout: Duration = Duration::from_secs(3), [Milliseconds(1..=600_000)], "longest time for an export to the collector";
        "metricGrpcExporterIntervalInMills" Restart otlp_interval: Duration = Duration::from_secs(60), [Milliseconds(100..=DAY_MS)], "time between two exports to the collector";
        "metricLoggingExporterIntervalInMills" Restart log_interval: Duration = Duration::from_secs(10), [Milliseconds(100..=DAY_MS)], "time between two exports to the log";
        "metricsInDelta" Restart is_delta: bool = false, "OTLP_GRPC and LOG export counts as what was added since the export before";
        "metricsExportBatchMaxDataPoints" Restart batch_max: usize = 1000, [1..=INT_MAX], "most series in one request to the collector";
    }
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
            None => Self::WORDS.read(&text.to_ascii_uppercase()),
        }
    }
}

impl Metrics {
    /// The labels of `metricsLabel`, in the order of the setting.
    pub(crate) fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        pairs(&self.labels).flatten()
    }

    /// Checks the text of `metricsLabel`, and returns it unchanged.
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

    /// Checks the text of the headers of exports, and returns it unchanged.
    pub(super) fn parse_headers(text: &str) -> Result<String, Fault> {
        match headers(text).all(|header| header.is_ok()) {
            true => Ok(text.to_owned()),
            // The value may be a secret.
            false => Err(Fault::Invalid("name:value separated by commas".to_owned())),
        }
    }

    /// Checks the address of the collector, and returns it with its scheme. An address without a scheme uses TLS, as in
    /// Java. An empty text stays empty.
    pub(super) fn parse_target(text: &str) -> Result<String, Fault> {
        let expected = || Fault::Invalid("http://HOST:PORT or https://HOST:PORT".to_owned());
        if text.is_empty() {
            return Ok(String::new());
        }
        let text = if text.contains("://") { text.to_owned() } else { format!("https://{text}") };
        let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
        let rest = rest.ok_or_else(expected)?.trim_end_matches('/');
        let (name, port) = rest.rsplit_once(':').ok_or_else(expected)?;
        port.parse::<u16>().ok().filter(|port| *port != 0).ok_or_else(expected)?;
        host(name.trim_matches(['[', ']'])).map_err(|_| expected())?;
        Ok(text.trim_end_matches('/').to_owned())
    }
}

/// The headers of the setting. A part that is no header is an error.
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

/// The labels of the setting. A part that is no label is an error, which contains the part.
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
