//! The URL of Redis, and what connections to it need.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use redis::IntoConnectionInfo;
use redis::cluster::ClusterClient;

use crate::hosts;
use crate::tls::{ClientFiles, ClientTls, Verification};

/// `redis://HOST:PORT`, or several Redis nodes of a cluster: `redis://HOST:PORT,HOST:PORT`. With TLS: `rediss://`.
#[derive(Clone)]
pub struct RedisUrl {
    /// Without the password.
    hosts: String,
    target: Target,
    has_password: bool,
    /// None if connections are not encrypted.
    files: Option<ClientFiles>,
}

#[derive(Clone)]
pub(super) enum Target {
    One(Box<redis::Client>),
    Cluster(Box<ClusterClient>),
}

/// What connections need: the URL, and the content of its files. Clones are cheap.
#[derive(Clone)]
pub struct RedisClient {
    pub(super) target: Target,
    /// None if connections are not encrypted.
    pub(super) tls: Option<ClientTls>,
}

/// The problem with a URL, which is not repeated: it may contain a password.
const MALFORMED: &str = "must be redis://USER:PASSWORD@HOST:PORT/DB, for example redis://127.0.0.1:6379, \
     or several nodes of a cluster separated by commas; rediss:// for TLS";

impl RedisUrl {
    /// Reads the TLS files, or returns an error of one line.
    pub fn client(&self) -> anyhow::Result<RedisClient> {
        let load = |files| ClientTls::load(files, Verification::Full, &[]);
        Ok(RedisClient {
            target: self.target.clone(),
            tls: self.files.as_ref().map(load).transpose()?,
        })
    }

    pub(crate) fn has_password(&self) -> bool {
        self.has_password
    }

    /// The files for TLS, or None if connections are not encrypted.
    pub(crate) fn files(&self) -> Option<&ClientFiles> {
        self.files.as_ref()
    }

    /// Verifies the certificate of Redis with the CAs in this file, unless the URL names another.
    pub(crate) fn set_default_ca(&mut self, path: &Path) {
        if let Some(files) = &mut self.files {
            files.set_default_ca(path);
        }
    }
}

impl FromStr for RedisUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let taken = hosts::take_parameters(text, ClientFiles::PARAMETERS);
        let (url, parameters) = taken.ok_or(MALFORMED)?;
        let files = ClientFiles::from_parameters(parameters)?;
        let (url, files) = match url.strip_prefix("rediss://") {
            // The fragment by which other clients disable verification.
            Some(rest) if rest.ends_with("#insecure") => {
                return Err(
                    "#insecure is not supported: the certificate of Redis is always verified"
                        .into(),
                );
            }
            // The crate need not know about TLS.
            Some(rest) => (format!("redis://{rest}"), Some(files)),
            None if files != ClientFiles::default() => {
                return Err("sslrootcert, sslcert and sslkey require rediss://".into());
            }
            None => (url, None),
        };
        let (nodes, hosts) = hosts::split_url("redis", &url).ok_or(MALFORMED)?;
        let target = match &*nodes {
            [one] => redis::Client::open(&**one).map(|client| Target::One(client.into())),
            _ => ClusterClient::new(nodes.clone()).map(|client| Target::Cluster(client.into())),
        };
        Ok(Self {
            has_password: has_password(&nodes),
            hosts,
            target: target.map_err(|_| MALFORMED)?,
            files,
        })
    }
}

fn has_password(nodes: &[String]) -> bool {
    let mut infos = nodes.iter().map(|url| url.as_str().into_connection_info());
    infos.any(|info| info.is_ok_and(|info| info.redis_settings().password().is_some()))
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisUrl({})", self.hosts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::Roots;

    #[test]
    fn one_host_is_a_server_and_several_are_a_cluster() {
        let parse = |text: &str| text.parse::<RedisUrl>().unwrap();
        let one = parse("redis://me:secret@cache:6379/3");
        assert!(matches!(one.target, Target::One(_)));
        assert_eq!(format!("{one:?}"), "RedisUrl(cache:6379)");
        let several = parse("redis://:secret@a:1,b:2,c:3");
        assert!(matches!(several.target, Target::Cluster(_)));
        assert_eq!(format!("{several:?}"), "RedisUrl(a:1,b:2,c:3)");
    }

    #[test]
    fn an_invalid_url_is_rejected() {
        for text in [
            "",
            "redis:",
            "http://a",
            "127.0.0.1:6379",
            "redis://a:port",
            "rediss:a",
            "rediss://a#insecure",
            "rediss://a?sslcert=a.pem",
            "redis://a?sslrootcert=a.pem",
        ] {
            assert!(text.parse::<RedisUrl>().is_err(), "{text}");
        }
    }

    #[test]
    fn tls_is_chosen_by_the_scheme_and_the_option_names_the_default_of_its_cas() {
        let parse = |text: &str| text.parse::<RedisUrl>().unwrap();
        assert_eq!(parse("redis://a:1").files, None);
        for (text, roots) in [
            ("rediss://a:1", Roots::File("option.pem".into())),
            (
                "rediss://a:1,b:2/?sslrootcert=url.pem",
                Roots::File("url.pem".into()),
            ),
            ("rediss://a:1/?sslrootcert=system", Roots::System),
        ] {
            let mut url = parse(text);
            url.set_default_ca(Path::new("option.pem"));
            assert_eq!(url.files.unwrap().roots, Some(roots), "{text}");
        }
    }
}
