//! The page at `/docs`: Swagger UI with the OpenAPI document, its files and its Content-Security-Policy. Nothing is loaded from elsewhere.

use bytes::Bytes;
use swagger_ui_redist::{SwaggerUi, SwaggerUiStaticFile};

/// The page itself. Its references are relative, so that it works behind a path prefix too.
const PAGE: &str = include_str!("docs/index.html");

/// Starts Swagger UI. A separate file, because the policy allows no script inside the page.
const START: &str = include_str!("docs/start.js");

/// A file of the page.
#[derive(Clone, Debug)]
pub(crate) struct Asset {
    pub content_type: &'static str,
    pub body: Bytes,
}

/// Returns the file at a path: `/docs` is the page, the others are below it.
pub(crate) fn asset(path: &str) -> Option<Asset> {
    use SwaggerUiStaticFile::{Css, Favicon16, Favicon32, IndexCss, Js};
    let name = path.strip_prefix("/docs")?;
    let (content_type, body) = match name {
        "" => ("text/html; charset=utf-8", PAGE.as_bytes()),
        "/start.js" => ("text/javascript; charset=utf-8", START.as_bytes()),
        "/swagger-ui-bundle.js" => ("text/javascript; charset=utf-8", bundled(Js)?),
        "/swagger-ui.css" => ("text/css; charset=utf-8", bundled(Css)?),
        "/index.css" => ("text/css; charset=utf-8", bundled(IndexCss)?),
        "/favicon-16x16.png" => ("image/png", bundled(Favicon16)?),
        "/favicon-32x32.png" => ("image/png", bundled(Favicon32)?),
        _ => return None,
    };
    Some(Asset {
        content_type,
        body: Bytes::from_static(body),
    })
}

/// A file of the crate.
fn bundled(file: SwaggerUiStaticFile) -> Option<&'static [u8]> {
    SwaggerUi::static_files()
        .iter()
        .find(|(name, _)| *name == file)
        .map(|(_, body)| *body)
}

/// The `Content-Security-Policy` of the page. It may send requests to its own server and to these origins, such as
/// `https://api.example.com`, which are the other servers of the document.
pub(crate) fn content_security_policy(origins: &[&str]) -> String {
    let mut connect = String::from("'self'");
    for origin in origins {
        connect.push(' ');
        connect.push_str(origin);
    }
    // Swagger UI's style sheet contains its icons as `data:` images.
    format!(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src {connect}; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every `href` and `src` in the page.
    fn references() -> Vec<&'static str> {
        PAGE.split(['<', '>'])
            .flat_map(|tag| {
                tag.split_once("href=\"")
                    .or_else(|| tag.split_once("src=\""))
            })
            .filter_map(|(_, rest)| rest.split('"').next())
            .collect()
    }

    #[test]
    fn the_page_and_all_files_that_it_refers_to_exist() {
        let page = asset("/docs").unwrap();
        assert_eq!(page.content_type, "text/html; charset=utf-8");
        let references = references();
        assert!(references.len() >= 6, "{references:?}");
        for reference in references {
            if reference.starts_with("openapi.") {
                continue;
            }
            let asset = asset(&format!("/{reference}")).unwrap_or_else(|| panic!("{reference}"));
            assert!(!asset.body.is_empty(), "{reference}");
        }
    }

    #[test]
    fn the_page_refers_to_nothing_elsewhere() {
        for reference in references() {
            assert!(
                reference.starts_with("docs/") || reference.starts_with("openapi."),
                "{reference}"
            );
        }
        assert!(!START.contains("//cdn") && !START.contains("http"));
    }

    #[test]
    fn the_page_has_no_script_or_style_inside() {
        assert!(!PAGE.contains("<style") && !PAGE.contains("style="));
        for script in PAGE.split("<script").skip(1) {
            let (_, inside) = script.split_once('>').unwrap();
            assert!(inside.starts_with("</script>"), "{inside}");
        }
    }

    #[test]
    fn other_paths_have_no_file() {
        for path in [
            "",
            "/",
            "/doc",
            "/docs/",
            "/docsx",
            "/docs/../docs",
            "/docs/index.html",
            "/Docs",
            "docs",
            "/v1/docs",
        ] {
            assert!(asset(path).is_none(), "{path}");
        }
    }

    #[test]
    fn the_policy_allows_only_what_is_named() {
        assert_eq!(
            content_security_policy(&[]),
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        );
        let policy = content_security_policy(&[
            "https://api.example.com",
            "https://staging.example.com:8443",
        ]);
        assert!(policy.contains(
            "connect-src 'self' https://api.example.com https://staging.example.com:8443; "
        ));
        assert!(!policy.contains("unsafe"));
    }
}
