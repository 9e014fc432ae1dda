//! TLS for connections to other servers, such as PostgreSQL, Redis and the collector of traces: the CAs, the client certificate,
//! and the handshake.

use std::error::Error;
use std::io;
use std::path::Path;
use std::sync::Arc;

use anyhow::{anyhow, bail};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::sign::SingleCertAndKey;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::explain::explain;
use super::files::{ClientFiles, Roots};
use super::pair;
use super::verifier::{Verification, Verifier};
use crate::files::{self, InvalidFile};

/// How connections to one server are encrypted. Clones are cheap.
#[derive(Clone, Debug)]
pub(crate) struct ClientTls {
    config: Arc<ClientConfig>,
    roots: Roots,
}

impl ClientTls {
    /// Reads the files that this verification needs. `protocols` are offered by ALPN.
    pub(crate) fn load(
        files: &ClientFiles,
        verification: Verification,
        protocols: &[&[u8]],
    ) -> anyhow::Result<Self> {
        let roots = files.roots.clone().unwrap_or_default();
        let (store, trusted) = match (verification, &roots) {
            (Verification::None, _) => (RootCertStore::empty(), Vec::new()),
            (_, Roots::System) => (system_roots()?, Vec::new()),
            (_, Roots::File(path)) => read_roots(path)?,
        };
        let provider = Arc::new(ring::default_provider());
        let verifier = Verifier {
            provider: Arc::clone(&provider),
            verification,
            roots: store,
            trusted,
        };
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| anyhow!("cannot set up TLS: {error}"))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let mut config = match &files.pair {
            Some((cert, key)) => {
                let (_, pair) = pair::read(cert, key);
                let resolver = SingleCertAndKey::from(pair?.certified);
                config.with_client_cert_resolver(Arc::new(resolver))
            }
            None => config.with_no_client_auth(),
        };
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Ok(Self {
            config: Arc::new(config),
            roots,
        })
    }

    pub(crate) fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.config)
    }

    /// Performs a handshake with the server of this name or address.
    pub(crate) async fn connect<S>(&self, host: &str, stream: S) -> io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| io::Error::other(format!("{host} is not a valid name for TLS")))?;
        TlsConnector::from(self.config())
            .connect(name, stream)
            .await
    }

    /// Explains an error that TLS has caused, about the server: `its certificate expired on 2026-01-01`. `None` if it was
    /// something else.
    pub(crate) fn explain(&self, error: &(dyn Error + 'static)) -> Option<String> {
        explain(error, &self.roots)
    }
}

/// Reads the CAs in a file, as a root store and as the certificates themselves.
pub(crate) fn read_roots(
    path: &Path,
) -> Result<(RootCertStore, Vec<CertificateDer<'static>>), InvalidFile> {
    let failed = InvalidFile::of(path);
    let trusted = files::read(path).and_then(|pem| pair::chain(&pem));
    let trusted = trusted.map_err(&failed)?;
    let mut store = RootCertStore::empty();
    for certificate in &trusted {
        let added = store.add(certificate.clone());
        added.map_err(|_| failed("a certificate is malformed".into()))?;
    }
    Ok((store, trusted))
}

fn system_roots() -> anyhow::Result<RootCertStore> {
    let found = rustls_native_certs::load_native_certs();
    let mut store = RootCertStore::empty();
    // Some systems have certificates that are malformed. They are ignored.
    store.add_parsable_certificates(found.certs);
    if store.is_empty() {
        let problem = match found.errors.first() {
            // Such as a wrong path in SSL_CERT_FILE.
            Some(error) => format!("cannot read the CA certificates of this system ({error})"),
            None => "this system has no CA certificates".into(),
        };
        bail!(
            "cannot verify servers: {problem}. Install CA certificates, or use --ca-cert (for traces: OTEL_EXPORTER_OTLP_CERTIFICATE)"
        );
    }
    Ok(store)
}
