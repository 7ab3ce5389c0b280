//! Settings of metrics.

use super::value::{Fault, host, number};

/// Whether and how metrics are served.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// `metricsExporterType`: metrics are served to Prometheus.
    pub exporter: Exporter,
    /// `metricsPromExporterHost`: address that the metrics' port is bound to; empty for that of `brokerIP1`.
    pub host: String,
    /// `metricsPromExporterPort`; 0 takes any free one.
    pub port: u16,
    /// `metricsLabel`: labels of every series, `name:value` separated by commas.
    pub labels: String,
    /// `metricsOtelCardinalityLimit`: most series of one metric; what exceeds it is summed up in one.
    pub series_max: usize,
}

/// How metrics leave the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exporter {
    /// Metrics are not served.
    Disable,
    /// Prometheus fetches them.
    Prom,
}

impl Exporter {
    /// The words of the setting, Java's default first.
    pub(super) const WORDS: [(&str, Self); 2] = [("DISABLE", Self::Disable), ("PROM", Self::Prom)];

    /// Parses the type of exporter by name or by number (`MetricsExporterType`).
    pub(super) fn parse(text: &str) -> Result<Self, Fault> {
        match text.to_ascii_uppercase().as_str() {
            "DISABLE" | "0" => Ok(Self::Disable),
            "PROM" | "2" => Ok(Self::Prom),
            "OTLP_GRPC" | "1" | "LOG" | "3" => Err(Fault::Refused(
                "only PROM is served; set it, and let a Prometheus or an OpenTelemetry collector fetch /metrics at \
                 metricsPromExporterPort"
                    .to_owned(),
            )),
            _ => Err(Fault::Invalid("DISABLE or PROM".to_owned())),
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
        }
    }
}

impl Metrics {
    /// The labels of `metricsLabel`, in the order of the setting.
    pub(crate) fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        pairs(&self.labels).flatten()
    }

    /// Parses the host of the exporter, which may be left out.
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

    /// Parses the most series of one metric.
    pub(super) fn parse_series(text: &str) -> Result<usize, Fault> {
        number(text, 1..=i64::from(i32::MAX))
    }
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
    fn exporters_go_by_name_or_number_and_what_is_not_served_is_refused() {
        for text in ["PROM", "prom", "2"] {
            assert_eq!(Exporter::parse(text), Ok(Exporter::Prom), "{text}");
        }
        for text in ["DISABLE", "0"] {
            assert_eq!(Exporter::parse(text), Ok(Exporter::Disable), "{text}");
        }
        for text in ["OTLP_GRPC", "1", "LOG", "3"] {
            assert!(matches!(Exporter::parse(text), Err(Fault::Refused(_))), "{text}");
        }
        assert!(matches!(Exporter::parse("7"), Err(Fault::Invalid(_))));
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
