//! Values of flags, and the flags of access control, which several tools have.

use crate::generator::{Access, Payload, Sizes};
use clap::Args;
use wire::settings::{NAMESRV_PORT, with_port};

/// A boolean that is given as a value and read as Java does: `true` in any case, anything else is false.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bool(pub bool);

impl std::str::FromStr for Bool {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.trim().eq_ignore_ascii_case("true")))
    }
}

impl std::fmt::Display for Bool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(&self.0, f)
    }
}

/// Parser for a number from 1 to `most`.
pub fn one_to(most: u32) -> impl Fn(&str) -> Result<u32, String> + Clone + Send + Sync {
    move |text| {
        let number = text.parse().ok().filter(|number: &u32| (1..=most).contains(number));
        number.ok_or_else(|| format!("expected a number of 1 to {most}"))
    }
}

/// Parses `HOST:PORT`.
pub fn address(text: &str) -> Result<String, String> {
    let parts = text.rsplit_once(':');
    let is_address = parts.is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    if is_address { Ok(text.to_owned()) } else { Err("expected HOST:PORT".to_owned()) }
}

/// Parses addresses of name servers, separated as [`client::Config::new`] takes them.
pub fn name_servers(text: &str) -> Result<String, String> {
    let servers = text.split([';', ',']).map(str::trim).filter(|server| !server.is_empty());
    let servers: Vec<String> =
        servers.map(|server| address(&with_port(server, NAMESRV_PORT))).collect::<Result<_, _>>()?;
    if servers.is_empty() { Err("expected HOST:PORT".to_owned()) } else { Ok(servers.join(";")) }
}

/// Parses a number of bytes: `512`, `1k`, `4m`.
pub fn size(text: &str) -> Result<u32, String> {
    u32::try_from(bytes(text)?).map_err(|_| format!("{text} are too many bytes"))
}

/// Parses a number of bytes of at least 1, after which a payload repeats.
pub fn period(text: &str) -> Result<u32, String> {
    let size = size(text)?;
    if size == 0 { Err("expected at least one byte".to_owned()) } else { Ok(size) }
}

/// Parses a number above zero.
pub fn above_zero(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| format!("expected a number above 0, found {text:?}"))
}

pub fn namesrv_default() -> String {
    std::env::var("NAMESRV_ADDR").unwrap_or_else(|_| "127.0.0.1:9876".to_owned())
}

/// Parses the content of bodies: `random`, `repeat:BYTES` or `file:PATH`.
pub fn payload(text: &str) -> Result<Payload, String> {
    match text.split_once(':') {
        None if text == "random" => Ok(Payload::Random),
        Some(("repeat", size)) => {
            let size = bytes(size)?;
            u32::try_from(size).map(Payload::Repeat).map_err(|_| format!("{size} bytes are too many"))
        }
        Some(("file", path)) => Ok(Payload::File(path.into())),
        _ => Err(format!("expected random, repeat:BYTES or file:PATH, found {text:?}")),
    }
}

/// Parses one size, or several with weights: `1k`, `512:9/10k:1`.
///
/// # Errors
/// The expected form and the text that was found, for any other text.
pub fn mix(text: &str) -> Result<Sizes, String> {
    let one = |part: &str| match part.split_once(':') {
        None => Ok((bytes(part)?, 1)),
        Some((size, weight)) => {
            let weight = weight.parse().map_err(|_| format!("expected a weight like 9, found {weight:?}"))?;
            Ok((bytes(size)?, weight))
        }
    };
    text.split('/').map(one).collect::<Result<_, String>>().map(Sizes)
}

/// Parses a number of bytes: `512`, `1k`, `10K`, `1m`, `2g`, where `k` is 1,024.
///
/// # Errors
/// The expected form and the text that was found, for any other text.
pub fn bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let wrong = || format!("expected a size like 512, 1k, 4m or 2g, found {text:?}");
    let letter = text.chars().last().ok_or_else(wrong)?.to_ascii_lowercase();
    let power = match letter {
        'k' => 1,
        'm' => 2,
        'g' => 3,
        _ => 0,
    };
    let digits = if power == 0 { text } else { &text[..text.len() - 1] };
    let number: f64 = digits.parse().map_err(|_| wrong())?;
    if number.is_finite() && number >= 0.0 {
        Ok((number * 1024_f64.powi(power)) as u64)
    } else {
        Err(wrong())
    }
}

/// Flags of how servers are reached.
#[derive(Args, Debug, Clone)]
pub struct ReachFlags {
    /// Loads the gRPC port of a proxy as clients of RocketMQ 5 do, not the ports of brokers. Name servers are asked only
    /// where topics are created or brokers observed.
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    pub grpc: Option<String>,
    /// Encrypts connections with TLS, and trusts any certificate.
    #[arg(long)]
    pub tls: bool,
}

/// Flags of access control.
#[derive(Args, Debug, Clone)]
pub struct AccessFlags {
    /// Access control, on or off: requests are signed with the keys.
    #[arg(short = 'a', long = "aclEnable", value_name = "BOOL", default_value_t = Bool(false))]
    pub acl: Bool,
    /// Access key.
    #[arg(long = "ak", alias = "accessKey", default_value = "rocketmq2", hide_default_value = true)]
    pub access_key: String,
    /// Secret key; no run keeps it.
    #[arg(long = "sk", alias = "secretKey", default_value = "12345678", hide_default_value = true)]
    pub secret_key: String,
}

impl AccessFlags {
    /// Keys to sign requests with; `None` without -a true.
    pub fn access(&self) -> Option<Access> {
        let (access_key, secret_key) = (self.access_key.clone(), self.secret_key.clone());
        self.acl.0.then_some(Access { access_key, secret_key })
    }
}
