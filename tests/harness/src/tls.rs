//! Certificates for tests, and a client that trusts only one of them.

use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion,
};

use tempfile::TempDir;

use crate::stream::Stream;

/// A self-signed certificate of `localhost` and 127.0.0.1, and its key.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// The certificate in PEM.
    pub pem: String,
    /// Its key in PEM.
    pub key_pem: String,
    /// The certificate in DER.
    pub der: CertificateDer<'static>,
}

impl Certificate {
    /// A new certificate, valid from 2020 to 2049.
    pub fn new() -> Self {
        Self::until(2049)
    }

    /// A new certificate, valid from 2020 to the first day of this year.
    pub fn until(year: i32) -> Self {
        Self::between(2020, year)
    }

    /// A new certificate, valid from the first day of one year to that of another.
    pub fn between(from: i32, until: i32) -> Self {
        Self::make(from, until, IsCa::NoCa)
    }

    /// A new certificate that claims to be a CA's, as those of `openssl req -x509` do.
    pub fn claiming_to_be_a_ca() -> Self {
        Self::make(2020, 2049, IsCa::Ca(BasicConstraints::Unconstrained))
    }

    fn make(from: i32, until: i32, is_ca: IsCa) -> Self {
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut params = CertificateParams::new(names).expect("names");
        params.not_before = date_time_ymd(from, 1, 1);
        params.not_after = date_time_ymd(until, 1, 1);
        params.is_ca = is_ca;
        let key = KeyPair::generate().expect("a key");
        let made = params.self_signed(&key).expect("a certificate");
        Self {
            pem: made.pem(),
            key_pem: key.serialize_pem(),
            der: made.der().clone(),
        }
    }

    /// Writes both into a folder, the key for its owner alone, and returns the files: certificate, key.
    pub fn write(&self, folder: &Path) -> (PathBuf, PathBuf) {
        let (cert, key) = (folder.join("cert.pem"), folder.join("key.pem"));
        std::fs::write(&cert, &self.pem).expect("a file");
        std::fs::write(&key, &self.key_pem).expect("a file");
        set_mode(&key, 0o600);
        (cert, key)
    }

    /// A client that trusts this certificate.
    pub fn client(&self) -> TlsClient {
        let versions = tokio_rustls::rustls::ALL_VERSIONS;
        self.client_with(versions, &["http/1.1"])
    }

    /// A client that trusts this certificate and speaks HTTP/2.
    pub fn http2_client(&self) -> TlsClient {
        self.client().offering(b"h2")
    }

    /// A client that trusts this certificate, with these versions of TLS, and these protocols for ALPN.
    pub fn client_with(
        &self,
        versions: &[&'static SupportedProtocolVersion],
        protocols: &[&str],
    ) -> TlsClient {
        let mut roots = RootCertStore::empty();
        roots.add(self.der.clone()).expect("a root");
        let provider = Arc::new(ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = protocols
            .iter()
            .map(|name| name.as_bytes().to_vec())
            .collect();
        TlsClient(Arc::new(config))
    }
}

impl Default for Certificate {
    fn default() -> Self {
        Self::new()
    }
}

/// Sets the permissions of a file.
pub(crate) fn set_mode(path: &Path, mode: u32) {
    let mode = std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(path, mode).expect("permissions");
}

/// The TLS configuration of a client.
#[derive(Clone, Debug)]
pub struct TlsClient(Arc<ClientConfig>);

impl TlsClient {
    /// A handshake with a server: the connection, or why there is none.
    pub fn handshake(
        &self,
        address: SocketAddr,
    ) -> std::io::Result<StreamOwned<ClientConnection, TcpStream>> {
        let name = ServerName::from(address.ip());
        let connection = ClientConnection::new(Arc::clone(&self.0), name).expect("a client");
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(Duration::from_secs(20)))?;
        let mut stream = StreamOwned::new(connection, socket);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(stream)
    }

    /// A connection for HTTP/1.1.
    pub(crate) fn connect(&self, address: SocketAddr) -> Stream {
        let http1 = match self.is_http2() {
            true => self.offering(b"http/1.1"),
            false => self.clone(),
        };
        Stream::Tls(Box::new(http1.handshake(address).expect("a handshake")))
    }

    /// Whether it speaks HTTP/2 alone.
    pub(crate) fn is_http2(&self) -> bool {
        self.0.alpn_protocols == [b"h2"]
    }

    /// The configuration, for other ways to connect.
    pub fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.0)
    }

    /// The same client, which also sends early data (0-RTT) if the server allows that.
    pub fn with_early_data(&self) -> Self {
        let mut config = ClientConfig::clone(&self.0);
        config.enable_early_data = true;
        Self(Arc::new(config))
    }

    fn offering(&self, protocol: &[u8]) -> Self {
        let mut config = ClientConfig::clone(&self.0);
        config.alpn_protocols = vec![protocol.to_vec()];
        Self(Arc::new(config))
    }
}

/// A certificate authority made for a test, and the folder that its certificates are written to.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    folder: TempDir,
}

/// The files of a certificate that an [`Authority`] has signed.
#[derive(Clone, Debug)]
pub struct Signed {
    /// The certificate.
    pub cert: PathBuf,
    /// Its key, for its owner alone.
    pub key: PathBuf,
    /// The authority's certificate.
    pub ca: PathBuf,
}

impl Authority {
    /// A new authority.
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let made = params.self_signed(&key).expect("a certificate");
        let folder = TempDir::with_prefix("ca-").expect("a folder");
        std::fs::write(folder.path().join("ca.pem"), made.pem()).expect("a file");
        // Servers that run as another user read it, too.
        set_mode(folder.path(), 0o755);
        Self {
            issuer: Issuer::new(params, key),
            folder,
        }
    }

    /// The file with its certificate.
    pub fn ca(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// The certificate of a server on this machine.
    pub fn server(&self) -> Signed {
        self.sign("server", &["localhost", "127.0.0.1"], 2049)
    }

    /// A certificate with this common name and for these hosts, valid until the first day of this year.
    pub fn sign(&self, name: &str, hosts: &[&str], year: i32) -> Signed {
        let hosts: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
        let mut params = CertificateParams::new(hosts).expect("names");
        params.distinguished_name.push(DnType::CommonName, name);
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(year, 1, 1);
        let key = KeyPair::generate().expect("a key");
        let made = params.signed_by(&key, &self.issuer).expect("a certificate");
        let file = |end: &str| self.folder.path().join(format!("{name}.{end}"));
        let (cert, private) = (file("pem"), file("key"));
        std::fs::write(&cert, made.pem()).expect("a file");
        std::fs::write(&private, key.serialize_pem()).expect("a file");
        set_mode(&private, 0o600);
        Signed {
            cert,
            key: private,
            ca: self.ca(),
        }
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}
