//! A static asset: with an `ETag`, and compressed for clients that accept it. Both are made when they are first needed, so
//! that they cost nothing at startup.

use std::io::Write;
use std::sync::OnceLock;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::StatusCode;
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, ETAG, HeaderValue, IF_NONE_MATCH, VARY,
};
use sha2::{Digest, Sha256};

use super::{Head, Response, header};

/// A static asset, such as a file of a page or the OpenAPI document.
#[derive(Debug)]
pub struct Asset {
    content_type: HeaderValue,
    caching: HeaderValue,
    body: Bytes,
    hash: OnceLock<String>,
    gzip: OnceLock<Bytes>,
}

impl Asset {
    /// A file that clients must revalidate (`no-cache`), because its content changes with the version of the server.
    pub fn new(content_type: &'static str, body: impl Into<Bytes>) -> Self {
        Self {
            content_type: HeaderValue::from_static(content_type),
            caching: header::NO_CACHE,
            body: body.into(),
            hash: OnceLock::new(),
            gzip: OnceLock::new(),
        }
    }

    /// A file that clients may cache permanently, because its name contains its [hash](Self::hash).
    pub fn immutable(content_type: &'static str, body: impl Into<Bytes>) -> Self {
        Self {
            caching: HeaderValue::from_static("public, max-age=31536000, immutable"),
            ..Self::new(content_type, body)
        }
    }

    /// The first 64 bits of the SHA-256 of its content, in hexadecimal.
    pub fn hash(&self) -> &str {
        self.hash.get_or_init(|| {
            let digest = Sha256::digest(&self.body);
            digest[..8]
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect()
        })
    }

    /// The response to a request for it: 304 if the client has the same representation already.
    pub fn respond(&self, head: &Head<'_>) -> Response {
        let compress = accepts_gzip(head);
        let suffix = if compress { "-gzip" } else { "" };
        let tag = format!("\"{}{suffix}\"", self.hash());
        let mut response = if is_known(head, &tag) {
            Response::new(StatusCode::NOT_MODIFIED)
        } else if compress {
            Response::with_type(self.content_type.clone(), self.compressed())
                .with(CONTENT_ENCODING, HeaderValue::from_static("gzip"))
        } else {
            Response::with_type(self.content_type.clone(), self.body.clone())
        };
        response.add(ETAG, header::value(tag));
        response.add(CACHE_CONTROL, self.caching.clone());
        response.add(VARY, HeaderValue::from_static("accept-encoding"));
        response
    }

    pub fn compressed(&self) -> Bytes {
        let compressed = self.gzip.get_or_init(|| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
            // Writing to a Vec cannot fail.
            let _ = encoder.write_all(&self.body);
            encoder.finish().unwrap_or_default().into()
        });
        compressed.clone()
    }
}

/// A file with the name that pages refer to, such as `assets/page.css`, its type and its content.
pub type NamedFile = (&'static str, &'static str, &'static str);

/// Files under names that contain their hash, such as `/assets/page-0123456789abcdef.css`. The references in `page` are replaced.
pub fn with_hashed_names(page: &mut String, files: &[NamedFile]) -> Vec<(String, Asset)> {
    let hashed = files.iter().map(|(name, content_type, body)| {
        let asset = Asset::immutable(content_type, *body);
        let (stem, extension) = name.rsplit_once('.').unwrap_or((name, ""));
        let path = format!("{stem}-{}.{extension}", asset.hash());
        *page = page.replace(&format!("\"{name}\""), &format!("\"{path}\""));
        (format!("/{path}"), asset)
    });
    hashed.collect()
}

/// Whether the client has the representation with this tag.
fn is_known(head: &Head<'_>, tag: &str) -> bool {
    list(head, &IF_NONE_MATCH)
        .any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag)
}

fn accepts_gzip(head: &Head<'_>) -> bool {
    list(head, &ACCEPT_ENCODING).any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let weight = weight.trim().to_ascii_lowercase();
        let weight = weight.strip_prefix("q=").unwrap_or("1");
        name.trim().eq_ignore_ascii_case("gzip")
            && weight.parse().is_ok_and(|weight: f32| weight > 0.0)
    })
}

/// The items of a header that is a list. No item of these contains a comma.
fn list<'a>(head: &Head<'a>, name: &http::HeaderName) -> impl Iterator<Item = &'a str> + use<'a> {
    let values = head
        .all(name)
        .filter_map(|value| std::str::from_utf8(value).ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use http::Request;
    use http::header::CONTENT_TYPE;

    use super::*;

    fn respond(asset: &Asset, headers: &[(&str, &str)]) -> (u16, http::HeaderMap) {
        let mut request = Request::get("/");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let response = asset.respond(&Head::new(&parts));
        let status = response.status.as_u16();
        let id = crate::http::RequestId::new(b"id");
        (status, response.into_parts(&id).0)
    }

    #[test]
    fn a_client_that_accepts_gzip_gets_it_and_another_does_not() {
        let asset = Asset::new("text/css", "x".repeat(1000));
        for (accepted, compressed) in [
            ("gzip", true),
            ("br, GZIP;q=0.5", true),
            ("deflate,gzip ; q=1", true),
            ("gzip;q=0", false),
            ("gzip;Q=0.000", false),
            ("br", false),
            ("", false),
            ("xgzip", false),
        ] {
            let (status, headers) = respond(&asset, &[("accept-encoding", accepted)]);
            assert_eq!(status, 200);
            assert_eq!(
                headers.contains_key(CONTENT_ENCODING),
                compressed,
                "{accepted}"
            );
            assert_eq!(headers[VARY], "accept-encoding");
        }
        assert!(asset.compressed().len() < 100);
    }

    #[test]
    fn a_client_that_has_it_gets_304_with_the_same_tag() {
        let asset = Asset::new("text/css", "x");
        for accepted in ["gzip", "identity"] {
            let (_, first) = respond(&asset, &[("accept-encoding", accepted)]);
            let tag = first[ETAG].to_str().unwrap();
            for known in [tag, "*", &format!("\"other\", W/{tag}")] {
                let sent = [("if-none-match", known), ("accept-encoding", accepted)];
                let (status, headers) = respond(&asset, &sent);
                assert_eq!((status, &headers[ETAG]), (304, &first[ETAG]), "{known}");
                assert!(!headers.contains_key(CONTENT_TYPE));
            }
            let (status, _) = respond(&asset, &[("if-none-match", "\"other\"")]);
            assert_eq!(status, 200);
        }
    }

    #[test]
    fn a_client_that_has_it_in_another_encoding_gets_it() {
        let asset = Asset::new("text/css", "x");
        for (had, accepted) in [("gzip", "identity"), ("identity", "gzip")] {
            let (_, other) = respond(&asset, &[("accept-encoding", had)]);
            let tag = other[ETAG].to_str().unwrap();
            let sent = [("if-none-match", tag), ("accept-encoding", accepted)];
            let (status, headers) = respond(&asset, &sent);
            assert_eq!(status, 200);
            assert_ne!(headers[ETAG], other[ETAG]);
        }
    }

    #[test]
    fn a_name_with_the_hash_of_its_content_may_be_kept_and_another_not() {
        let (_, page) = respond(&Asset::new("text/html", "x"), &[]);
        assert_eq!(page[CACHE_CONTROL], "no-cache");
        let (_, file) = respond(&Asset::immutable("text/css", "x"), &[]);
        assert_eq!(file[CACHE_CONTROL], "public, max-age=31536000, immutable");
        let [one, other] = ["x", "y"].map(|body| Asset::new("text/css", body).hash().to_owned());
        assert_eq!(one.len(), 16);
        assert_ne!(one, other);
    }
}
