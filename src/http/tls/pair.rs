//! A certificate and its key, read from two PEM files and checked.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::Digest as _;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{self, InconsistentKeys};

use super::expiry;
use crate::clock::Timestamp;

/// The most bytes of a file.
const MAX_FILE: u64 = 1 << 20;

/// The permission of everybody to read.
const OTHERS_READ: u32 = 0o004;

/// The SHA-256 of the content of both files, or of what prevented reading them.
pub(super) type Digest = [u8; 32];

/// A certificate and its key.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) certified: Arc<CertifiedKey>,
    /// When the certificate expires.
    pub(super) expires_at: Timestamp,
}

/// Why a pair cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InvalidPair {
    /// A file cannot be read.
    #[error("{}: {problem}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why, and what to do.
        problem: String,
    },
    /// The key is another certificate's.
    #[error("{}: does not match the certificate in {}", .key.display(), .cert.display())]
    Mismatch {
        /// The file with the certificate.
        cert: PathBuf,
        /// The file with the key.
        key: PathBuf,
    },
    /// TLS cannot be set up.
    #[error("cannot set up TLS: {0}")]
    Setup(#[from] rustls::Error),
}

/// Reads both files, and checks that they belong together.
pub(super) fn read(cert: &Path, key: &Path) -> (Digest, Result<Pair, InvalidPair>) {
    let (cert_read, key_read) = (read_file(cert, false), read_file(key, true));
    let mut digest = sha2::Sha256::new();
    for read in [&cert_read, &key_read] {
        match read {
            Ok(bytes) => digest.update(sha2::Sha256::digest(bytes)),
            Err(problem) => digest.update(problem),
        }
    }
    let failed = |path: &Path| {
        let path = path.to_owned();
        |problem| InvalidPair::File { path, problem }
    };
    let pair = cert_read.map_err(failed(cert)).and_then(|cert_pem| {
        let key_pem = key_read.map_err(failed(key))?;
        let chain = chain(&cert_pem).map_err(failed(cert))?;
        let expires_at = chain.first().and_then(|leaf| expiry::of(leaf));
        let expires_at = expires_at
            .ok_or_else(|| "the certificate is malformed".to_owned())
            .map_err(failed(cert))?;
        let private = PrivateKeyDer::from_pem_slice(&key_pem)
            .map_err(|_| "contains no private key in PEM format that is not encrypted".to_owned())
            .map_err(failed(key))?;
        match CertifiedKey::from_der(chain, private, &ring::default_provider()) {
            Ok(certified) => Ok(Pair {
                certified: Arc::new(certified),
                expires_at,
            }),
            Err(rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => {
                Err(InvalidPair::Mismatch {
                    cert: cert.to_owned(),
                    key: key.to_owned(),
                })
            }
            Err(rustls::Error::InvalidCertificate(_)) => {
                Err(failed(cert)("the certificate is malformed".into()))
            }
            Err(error) => Err(failed(key)(format!("the key cannot be used: {error}"))),
        }
    });
    (digest.finalize().into(), pair)
}

/// Reads a file. One that is secret must not be readable by everybody.
fn read_file(path: &Path, is_secret: bool) -> Result<Vec<u8>, String> {
    let described = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound => "file not found".to_owned(),
        ErrorKind::PermissionDenied => "permission denied: cannot read the file".to_owned(),
        ErrorKind::IsADirectory => "is a directory, not a file".to_owned(),
        _ => error.to_string(),
    };
    let file = File::open(path).map_err(described)?;
    let mode = file.metadata().map_err(described)?.permissions().mode();
    if is_secret && mode & OTHERS_READ != 0 {
        let shown = path.display();
        return Err(format!(
            "every user can read this private key: run `chmod o-r {shown}`"
        ));
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE)
        .read_to_end(&mut bytes)
        .map_err(described)?;
    Ok(bytes)
}

/// The certificates in a file, that of the server first.
fn chain(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match chain {
        Ok(chain) if !chain.is_empty() => Ok(chain),
        _ => Err("contains no certificate in PEM format".into()),
    }
}
