//! Why a handshake failed, in words for the operator who has to fix it.

use std::error::Error;
use std::io;
use std::sync::Arc;

use tokio_rustls::rustls::pki_types::UnixTime;
use tokio_rustls::rustls::{self, AlertDescription, CertificateError};

use super::Roots;
use crate::clock::{Day, Timestamp};

/// Explains an error that TLS has caused. `None` if it was something else.
pub(super) fn explain(error: &(dyn Error + 'static), roots: &Roots) -> Option<String> {
    Some(match find(error)? {
        rustls::Error::InvalidCertificate(error) => certificate(error, roots),
        rustls::Error::AlertReceived(alert) => match alert {
            AlertDescription::CertificateRequired => {
                "it requires a client certificate: add sslcert and sslkey to the URL (for traces, set OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and OTEL_EXPORTER_OTLP_CLIENT_KEY)".into()
            }
            // TLS 1.2 has no specific alert for a missing certificate.
            AlertDescription::HandshakeFailure => {
                "it rejected the handshake: it may require a client certificate".into()
            }
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateUnknown => {
                format!("it does not accept the client certificate: {alert:?}")
            }
            _ => format!("it rejected the handshake: {alert:?}"),
        },
        rustls::Error::InvalidMessage(_) => "it does not speak TLS on this port".into(),
        error => format!("the TLS handshake failed: {error}"),
    })
}

fn certificate(error: &CertificateError, roots: &Roots) -> String {
    match error {
        CertificateError::ExpiredContext { not_after, .. } => {
            format!("its certificate expired on {}", day(*not_after))
        }
        CertificateError::NotValidYetContext { not_before, .. } => {
            format!("its certificate is not valid before {}", day(*not_before))
        }
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            format!("its certificate is not signed by {roots}")
        }
        CertificateError::NotValidForNameContext {
            expected,
            presented,
        } => {
            let expected = expected.to_str();
            let names: Vec<&str> = presented.iter().map(|name| bare(name)).collect();
            match &*names {
                [] => format!("its certificate has no subjectAltName, so it is not for {expected}"),
                names => format!(
                    "its certificate is for {}, not for {expected}",
                    names.join(", ")
                ),
            }
        }
        error if is_of_ca(error) => format!(
            "its certificate is self-signed or that of a CA: it must be a server certificate signed by {roots}"
        ),
        error => format!("its certificate is invalid: {error}"),
    }
}

/// Whether a server has presented a certificate that claims to be a CA's, as most self-signed ones do. The error
/// is webpki's, which is not a direct dependency, so it is recognized by its text.
fn is_of_ca(error: &CertificateError) -> bool {
    matches!(error, CertificateError::Other(other) if other.0.to_string() == "CaUsedAsEndEntity")
}

/// The name in `DnsName("db.example")` or `IpAddress(127.0.0.1)`.
fn bare(name: &str) -> &str {
    let inner = name.split_once('(').map_or(name, |(_, inner)| inner);
    inner.trim_end_matches(')').trim_matches('"')
}

fn day(time: UnixTime) -> Day {
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX / 1000);
    Timestamp::from_secs(seconds).day()
}

/// The error of rustls among the causes of an error.
fn find<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    if let Some(found) = error.downcast_ref() {
        return Some(found);
    }
    // The crate redis shares its causes.
    if let Some(shared) = error.downcast_ref::<Arc<dyn Error + Send + Sync>>() {
        return find(&**shared);
    }
    // Its source is the source of the inner error, not the inner error itself.
    if let Some(io) = error.downcast_ref::<io::Error>()
        && let Some(inner) = io.get_ref()
    {
        return find(inner);
    }
    find(error.source()?)
}
