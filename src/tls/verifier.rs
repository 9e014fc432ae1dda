//! The verification of a server's certificate, at the levels of libpq's `sslmode`.

use std::sync::Arc;

use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use tokio_rustls::rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::{
    CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

use super::der;
use crate::clock::Timestamp;

/// What is verified of a server's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verification {
    /// Nothing: the connection is encrypted, but the server may be an impostor.
    None,
    /// The chain: a CA has signed it.
    Chain,
    /// The chain, and that it is for the name of the server.
    Full,
}

#[derive(Debug)]
pub(super) struct Verifier {
    pub(super) provider: Arc<CryptoProvider>,
    pub(super) verification: Verification,
    pub(super) roots: RootCertStore,
    /// The certificates in the file of CAs, one of which may be that of the server itself.
    pub(super) trusted: Vec<CertificateDer<'static>>,
}

impl Verifier {
    fn verify_chain(
        &self,
        leaf: &CertificateDer<'_>,
        parsed: &ParsedCertificate<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        // A self-signed certificate often claims to be a CA, and webpki accepts no CA as a server. One that the file names is trusted.
        if self.trusted.contains(leaf) {
            return verify_validity(leaf, now);
        }
        verify_server_cert_signed_by_trust_anchor(
            parsed,
            &self.roots,
            intermediates,
            now,
            self.algorithms().all,
        )
    }

    fn algorithms(&self) -> &WebPkiSupportedAlgorithms {
        &self.provider.signature_verification_algorithms
    }
}

fn verify_validity(certificate: &[u8], now: UnixTime) -> Result<(), Error> {
    let validity = der::validity(certificate).ok_or(CertificateError::BadEncoding)?;
    let unix = |time: Timestamp| {
        let millis = u64::try_from(time.as_millis()).unwrap_or_default();
        UnixTime::since_unix_epoch(std::time::Duration::from_millis(millis))
    };
    let (not_before, not_after) = (unix(validity.not_before), unix(validity.not_after));
    if now > not_after {
        let time = now;
        return Err(CertificateError::ExpiredContext { time, not_after }.into());
    }
    if now < not_before {
        let time = now;
        return Err(CertificateError::NotValidYetContext { time, not_before }.into());
    }
    Ok(())
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.verification != Verification::None {
            let parsed = ParsedCertificate::try_from(leaf)?;
            self.verify_chain(leaf, &parsed, intermediates, now)?;
            if self.verification == Verification::Full {
                verify_server_name(&parsed, name)?;
            }
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, signed, self.algorithms())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, signed, self.algorithms())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms().supported_schemes()
    }
}
