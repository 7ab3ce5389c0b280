//! Trust in certificates. RocketMQ compares no host names, and by default trusts any certificate
//! (`InsecureTrustManagerFactory` in `TlsHelper`): encryption then protects from eavesdropping, not from impostors.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};

/// Verifies that clients' certificates are signed by `roots`.
pub(super) fn signed_callers(
    roots: Arc<RootCertStore>,
    required: bool,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, Error> {
    let builder = WebPkiClientVerifier::builder_with_provider(roots, provider);
    let builder = if required { builder } else { builder.allow_unauthenticated() };
    builder.build().map_err(|error| Error::General(error.to_string()))
}

/// Accepts clients with any certificate.
pub(super) fn any_caller(required: bool, provider: Arc<CryptoProvider>) -> Arc<dyn ClientCertVerifier> {
    Arc::new(ClientVerifier { required, provider })
}

/// Verifies that servers' certificates are signed by `roots`, with any name. Accepts all servers without `roots`.
pub(super) fn servers(
    roots: Option<Arc<RootCertStore>>,
    provider: Arc<CryptoProvider>,
) -> Arc<dyn ServerCertVerifier> {
    Arc::new(ServerVerifier { roots, provider })
}

/// Methods that both traits of verifiers have: signatures of a handshake are verified by the provider.
macro_rules! signatures {
    ($($method:ident)*) => {
        $(fn $method(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            $method(message, certificate, signed, &self.provider.signature_verification_algorithms)
        })*

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.provider.signature_verification_algorithms.supported_schemes()
        }
    };
}

#[derive(Debug)]
struct ClientVerifier {
    required: bool,
    provider: Arc<CryptoProvider>,
}

impl ClientCertVerifier for ClientVerifier {
    fn client_auth_mandatory(&self) -> bool {
        self.required
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _chain: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    signatures! { verify_tls12_signature verify_tls13_signature }
}

#[derive(Debug)]
struct ServerVerifier {
    roots: Option<Arc<RootCertStore>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(roots) = &self.roots {
            let parsed = ParsedCertificate::try_from(certificate)?;
            let algorithms = self.provider.signature_verification_algorithms.all;
            verify_server_cert_signed_by_trust_anchor(&parsed, roots, chain, now, algorithms)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    signatures! { verify_tls12_signature verify_tls13_signature }
}
