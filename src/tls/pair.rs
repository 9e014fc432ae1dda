//! A certificate and its key, read from two PEM files and checked.

use std::path::Path;
use std::sync::Arc;

use sha2::Digest as _;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{self, InconsistentKeys};

use super::der;
use crate::clock::Timestamp;
use crate::files::{self, InvalidFile};

/// The SHA-256 of the content of both files, or of what prevented reading them.
pub(crate) type Digest = [u8; 32];

#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) certified: Arc<CertifiedKey>,
    pub(crate) valid_from: Timestamp,
    pub(crate) expires_at: Timestamp,
}

/// Reads both files, and checks that they belong together.
pub(crate) fn read(cert: &Path, key: &Path) -> (Digest, Result<Pair, InvalidFile>) {
    let (cert_read, key_read) = (files::read(cert), files::read_secret(key, "private key"));
    let mut digest = sha2::Sha256::new();
    for read in [&cert_read, &key_read] {
        match read {
            Ok(bytes) => digest.update(sha2::Sha256::digest(bytes)),
            Err(problem) => digest.update(problem),
        }
    }
    let failed = InvalidFile::of;
    let pair = cert_read.map_err(failed(cert)).and_then(|cert_pem| {
        let key_pem = key_read.map_err(failed(key))?;
        let chain = chain(&cert_pem).map_err(failed(cert))?;
        let validity = chain.first().and_then(|leaf| der::validity(leaf));
        let validity = validity
            .ok_or_else(|| "the certificate is malformed".to_owned())
            .map_err(failed(cert))?;
        let private = PrivateKeyDer::from_pem_slice(&key_pem)
            .map_err(|_| "contains no unencrypted private key in PEM format".to_owned())
            .map_err(failed(key))?;
        match CertifiedKey::from_der(chain, private, &ring::default_provider()) {
            Ok(certified) => Ok(Pair {
                certified: Arc::new(certified),
                valid_from: validity.not_before,
                expires_at: validity.not_after,
            }),
            Err(rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => {
                let cert = cert.display();
                Err(failed(key)(format!("does not match the certificate in {cert}")))
            }
            Err(rustls::Error::InvalidCertificate(_)) => {
                Err(failed(cert)("the certificate is malformed".into()))
            }
            Err(_) => Err(failed(key)(
                "the key cannot be used: it must be RSA of 2048 to 4096 bits, P-256, P-384 or Ed25519"
                    .into(),
            )),
        }
    });
    (digest.finalize().into(), pair)
}

/// The certificates in a file. In the file of a pair, the first one belongs to the key.
pub(super) fn chain(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match chain {
        Ok(chain) if !chain.is_empty() => Ok(chain),
        _ => Err("contains no certificate in PEM format".into()),
    }
}
