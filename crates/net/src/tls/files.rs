//! Builds the rustls configurations from settings and files.

use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig, SupportedProtocolVersion, version};

use super::settings::unexpected;
use super::{ClientAuth, KeyPair, TlsError, TlsSettings, trust};

/// Most bytes of a file of certificates or of a key.
const FILE_BYTES_MAX: u64 = 16 << 20;

type Pair = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// The server configuration, like `TlsHelper.buildSslContext(false)`.
pub(super) fn server_config(settings: &TlsSettings) -> Result<Arc<ServerConfig>, TlsError> {
    let provider = provider(settings)?;
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&protocols(settings)?)?;
    let (pair, auth) = match settings.server_identity() {
        Some(identity) => (read(identity)?, settings.client_auth),
        None => (self_signed()?, ClientAuth::None),
    };
    let required = auth == ClientAuth::Require;
    let builder = match auth {
        ClientAuth::None => builder.with_no_client_auth(),
        _ if settings.verify_client => {
            let roots = roots(settings.server_trust.as_deref(), "tls.server.trustCertPath")?;
            builder.with_client_cert_verifier(trust::signed_callers(roots, required, provider)?)
        }
        _ => builder.with_client_cert_verifier(trust::any_caller(required, provider)),
    };
    Ok(Arc::new(builder.with_single_cert(pair.0, pair.1)?))
}

/// The client configuration, like `TlsHelper.buildSslContext(true)`.
pub(super) fn client_config(settings: &TlsSettings) -> Result<Arc<ClientConfig>, TlsError> {
    let provider = provider(settings)?;
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&protocols(settings)?)?;
    let roots = match settings.checks_servers() {
        true => Some(roots(settings.client_trust.as_deref(), "tls.client.trustCertPath")?),
        false => None,
    };
    let builder = builder.dangerous().with_custom_certificate_verifier(trust::servers(roots, provider));
    Ok(Arc::new(match settings.client_identity() {
        Some(identity) => {
            let (chain, key) = read(identity)?;
            builder.with_client_auth_cert(chain, key)?
        }
        None => builder.with_no_client_auth(),
    }))
}

/// Makes the configuration of HTTP/2 clients that trust the authorities in this file, such as the system's
/// authorities. Unreadable authorities are skipped, because files of systems may contain some.
pub(super) fn http2_config(trust: &Path) -> Result<Arc<ClientConfig>, TlsError> {
    let mut roots = RootCertStore::empty();
    if roots.add_parsable_certificates(certificates(trust)?).0 == 0 {
        return Err(unexpected(
            "the file of trusted authorities",
            &trust.display().to_string(),
            "expected certificates",
        ));
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions()?.with_root_certificates(roots);
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(config))
}

/// The crypto provider, restricted to the allowed ciphers.
fn provider(settings: &TlsSettings) -> Result<Arc<CryptoProvider>, TlsError> {
    let mut provider = ring::default_provider();
    if settings.ciphers.is_empty() {
        return Ok(Arc::new(provider));
    }
    // Java names the suites of TLS 1.3 without the version.
    let name =
        |suite: &rustls::SupportedCipherSuite| format!("{:?}", suite.suite()).replace("TLS13_", "TLS_");
    for wanted in &settings.ciphers {
        if !provider.cipher_suites.iter().any(|suite| name(suite) == *wanted) {
            let known: Vec<String> = provider.cipher_suites.iter().map(name).collect();
            return Err(unexpected("tls.ciphers", wanted, format!("expected some of {}", known.join(","))));
        }
    }
    provider.cipher_suites.retain(|suite| settings.ciphers.contains(&name(suite)));
    Ok(Arc::new(provider))
}

fn protocols(settings: &TlsSettings) -> Result<Vec<&'static SupportedProtocolVersion>, TlsError> {
    if settings.protocols.is_empty() {
        return Ok(vec![&version::TLS12, &version::TLS13]);
    }
    let known = |name: &String| match name.as_str() {
        "TLSv1.2" => Ok(&version::TLS12),
        "TLSv1.3" => Ok(&version::TLS13),
        _ => Err(unexpected("tls.protocols", name, "expected TLSv1.2, TLSv1.3 or both")),
    };
    settings.protocols.iter().map(known).collect()
}

/// A self-signed certificate without a real name, for clients that verify nothing.
fn self_signed() -> Result<Pair, TlsError> {
    let made = rcgen::generate_simple_self_signed(vec!["vostok".to_owned()])
        .map_err(|error| rustls::Error::General(error.to_string()))?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    Ok((vec![made.cert.der().clone()], key.into()))
}

fn read(identity: &KeyPair) -> Result<Pair, TlsError> {
    let chain = certificates(&identity.certificate)?;
    let path = identity.key.as_path();
    let text = read_regular(path).map_err(|cause| file(path, cause))?;
    let key = match (&identity.password, encrypted(&text)) {
        (Some(password), Some(der)) => decrypt(&der, password).map_err(|cause| file(path, cause))?,
        (None, Some(_)) => return Err(file(path, invalid("the key is encrypted; say its password"))),
        _ => PrivateKeyDer::from_pem_slice(&text)
            .map_err(|error| file(path, invalid(format!("expected a PEM private key: {error}"))))?,
    };
    Ok((chain, key))
}

/// The bytes of an `ENCRYPTED PRIVATE KEY`.
fn encrypted(text: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(text).ok()?;
    let start = text.find("-----BEGIN ENCRYPTED PRIVATE KEY-----")?;
    let (label, document) = pkcs8::SecretDocument::from_pem(&text[start..]).ok()?;
    (label == "ENCRYPTED PRIVATE KEY").then(|| document.as_bytes().to_vec())
}

fn decrypt(der: &[u8], password: &str) -> io::Result<PrivateKeyDer<'static>> {
    let key = pkcs8::EncryptedPrivateKeyInfo::try_from(der).map_err(invalid)?;
    let plain = key.decrypt(password).map_err(|error| {
        invalid(format!("the key cannot be decrypted, wrong password or unsupported cipher: {error}"))
    })?;
    Ok(PrivatePkcs8KeyDer::from(plain.as_bytes().to_vec()).into())
}

fn roots(path: Option<&Path>, key: &str) -> Result<Arc<RootCertStore>, TlsError> {
    let path = path.ok_or_else(|| unexpected(key, "", "expected the file of those who sign certificates"))?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate)?;
    }
    Ok(Arc::new(roots))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = read_regular(path).map_err(|cause| file(path, cause))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(file(path, invalid("expected certificates in PEM, found none"))),
        Err(error) => Err(file(path, invalid(error))),
    }
}

/// Reads a regular file. The files are read again while the server runs, and reading a FIFO or a device does not end.
fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(invalid("expected a regular file"));
    }
    let mut text = Vec::new();
    std::fs::File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut text)?;
    match text.len() as u64 > FILE_BYTES_MAX {
        true => Err(invalid(format!("expected at most {FILE_BYTES_MAX} bytes"))),
        false => Ok(text),
    }
}

fn file(path: &Path, cause: io::Error) -> TlsError {
    TlsError::File { path: path.to_owned(), cause }
}

fn invalid(why: impl ToString) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_string())
}
