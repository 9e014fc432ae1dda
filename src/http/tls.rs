//! TLS for a listener: the certificate and its key, which are replaced while the server runs, and the handshake.
//!
//! The resolver returns the current certificate at every handshake, so that a new pair is used from the next connection on, and open
//! connections stay as they are.

mod handshake;

pub(super) use handshake::{Handshake, perform_handshake};

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
    /// The content of the files when they were last read, whether it was valid or not.
    seen: Mutex<Digest>,
    acceptor: TlsAcceptor,
    /// Offers only HTTP/1.1.
    pub(super) http1_acceptor: TlsAcceptor,
}

#[derive(Debug)]
struct CurrentPair(Mutex<Pair>);

impl Tls {
    /// Reads and checks the files.
    pub fn load(cert: PathBuf, key: PathBuf) -> Result<Self, InvalidFile> {
        let (digest, pair) = read_pair(&cert, &key);
        let current = Arc::new(CurrentPair(Mutex::new(pair?)));
        let mut config = config(Arc::clone(&current)).map_err(|error| InvalidFile {
            path: cert.clone(),
            problem: format!("cannot set up TLS: {error}"),
        })?;
        let http1_acceptor = TlsAcceptor::from(Arc::new(config.clone()));
        // In order of preference.
        config.alpn_protocols.insert(0, HTTP_2.to_vec());
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Ok(Self(Arc::new(TlsState {
            cert,
            key,
            current,
            seen: Mutex::new(digest),
            acceptor,
            http1_acceptor,
        })))
    }

    /// Reads the files again. A pair that is invalid changes nothing. One that was read before is checked again only if `always`.
    /// Returns whether the files differ from those that were read before.
    pub fn reload(&self, always: bool) -> Result<bool, InvalidFile> {
        let mut seen = lock(&self.0.seen);
        let (digest, pair) = read_pair(&self.0.cert, &self.0.key);
        let is_new = digest != *seen;
        if is_new || always {
            *seen = digest;
            *lock(&self.0.current.0) = pair?;
        }
        Ok(is_new)
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
