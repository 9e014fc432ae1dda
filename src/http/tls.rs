//! TLS for a listener: the certificate and its key, which are replaced while the server runs, and the handshake.
//!
//! The resolver returns the current certificate at every handshake, so that a new pair is used from the next connection on, and open
//! connections stay as they are.

mod handshake;

pub(super) use handshake::{Handshake, MAX_BUFFERED_BYTES, perform_handshake};

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{self, ServerConfig};

use crate::clock::Timestamp;
use crate::files::InvalidFile;
use crate::mutex::lock;
use crate::tls::{Digest, Pair, read_pair};

/// The ALPN protocol of HTTP/1.1.
const HTTP_1: &[u8] = b"http/1.1";

/// The ALPN protocol of HTTP/2.
pub(super) const HTTP_2: &[u8] = b"h2";

/// The certificate and the key of a listener, and the files that they come from. Clones share them.
#[derive(Clone)]
pub struct Tls(pub(super) Arc<TlsState>);

pub(super) struct TlsState {
    cert: PathBuf,
    key: PathBuf,
    current: Arc<CurrentPair>,
    digests: Mutex<Digests>,
    acceptor: TlsAcceptor,
    /// Offers only HTTP/1.1.
    pub(super) http1_acceptor: TlsAcceptor,
}

/// Digests of the files.
struct Digests {
    /// As of the last read, valid or not.
    read: Digest,
    /// Of the pair in use.
    in_use: Digest,
}

/// The result of reading the files again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    /// They are as they were when they were last read: nothing was checked.
    Skipped,
    /// They are valid, and contain the pair in use.
    Unchanged,
    Replaced,
}

#[derive(Debug)]
struct CurrentPair(Mutex<Pair>);

impl Tls {
    /// Reads and checks the files.
    pub fn load(cert: PathBuf, key: PathBuf) -> Result<Self, InvalidFile> {
        let (digest, pair) = read_pair(&cert, &key);
        let current = Arc::new(CurrentPair(Mutex::new(pair?)));
        let mut config = config(Arc::clone(&current))
            .map_err(|error| InvalidFile::of(&cert)(format!("cannot set up TLS: {error}")))?;
        let http1_acceptor = TlsAcceptor::from(Arc::new(config.clone()));
        // In order of preference.
        config.alpn_protocols.insert(0, HTTP_2.to_vec());
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Ok(Self(Arc::new(TlsState {
            cert,
            key,
            current,
            digests: Mutex::new(Digests {
                read: digest,
                in_use: digest,
            }),
            acceptor,
            http1_acceptor,
        })))
    }

    /// Reads the files again. A pair that is invalid changes nothing. Files that have not changed are checked again only if
    /// `even_if_unchanged`.
    pub fn reload(&self, even_if_unchanged: bool) -> Result<Reload, InvalidFile> {
        let mut digests = lock(&self.0.digests);
        let (digest, pair) = read_pair(&self.0.cert, &self.0.key);
        if digest == digests.read && !even_if_unchanged {
            return Ok(Reload::Skipped);
        }
        digests.read = digest;
        let pair = pair?;
        if digest == digests.in_use {
            return Ok(Reload::Unchanged);
        }
        digests.in_use = digest;
        *lock(&self.0.current.0) = pair;
        Ok(Reload::Replaced)
    }

    pub fn valid_from(&self) -> Timestamp {
        lock(&self.0.current.0).valid_from
    }

    pub fn expires_at(&self) -> Timestamp {
        lock(&self.0.current.0).expires_at
    }
}

impl ResolvesServerCert for CurrentPair {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&lock(&self.0).certified))
    }
}

fn config(current: Arc<CurrentPair>) -> Result<ServerConfig, rustls::Error> {
    let provider = Arc::new(ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(current);
    // Sessions are resumed with tickets that the client keeps: they cost no memory here.
    config.ticketer = ring::Ticketer::new()?;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.alpn_protocols = vec![HTTP_1.to_vec()];
    Ok(config)
}
