//! The dashboard: a page that needs nothing from elsewhere. It reads and changes everything through the admin API.

use std::sync::LazyLock;

use http::header::{CONTENT_SECURITY_POLICY, HeaderValue, REFERRER_POLICY};

use crate::http::{Asset, Head, NamedFile, Response, with_hashed_names};

const PAGE: &str = include_str!("page/index.html");

const FILES: [NamedFile; 3] = [
    (
        "assets/page.css",
        "text/css; charset=utf-8",
        concat!(
            include_str!("../assets/base.css"),
            include_str!("page/uplot/uplot.css"),
            include_str!("page/page.css")
        ),
    ),
    (
        "assets/page.js",
        "text/javascript; charset=utf-8",
        concat!(
            include_str!("page/uplot/uplot.js"),
            include_str!("page/core.js"),
            include_str!("page/dialog.js"),
            include_str!("page/lists.js"),
            include_str!("page/now.js"),
            include_str!("page/keys.js"),
            include_str!("page/animals.js"),
            include_str!("page/main.js")
        ),
    ),
    (
        "assets/icon.svg",
        "image/svg+xml",
        include_str!("../assets/icon.svg"),
    ),
];

const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; \
     form-action 'self'; frame-ancestors 'none'",
);

/// The response to a request for the page or one of its files.
pub(super) fn respond(head: &Head<'_>) -> Option<Response> {
    // Made at the first request, so that they cost nothing at startup.
    static FILES_BY_PATH: LazyLock<Vec<(String, Asset)>> = LazyLock::new(build);
    let (_, asset) = FILES_BY_PATH.iter().find(|(path, _)| path == head.path)?;
    let response = asset.respond(head).with(CONTENT_SECURITY_POLICY, POLICY);
    Some(response.with(REFERRER_POLICY, HeaderValue::from_static("no-referrer")))
}

/// The page and its files, by path.
fn build() -> Vec<(String, Asset)> {
    let mut page = PAGE.to_owned();
    let mut files = with_hashed_names(&mut page, &FILES);
    files.push(("/".to_owned(), Asset::new("text/html; charset=utf-8", page)));
    files
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;
    use crate::admin::api::keys::{KEY_USAGE_DAYS, LIST_USAGE_DAYS};
    use crate::admin::sample::MAX_SAMPLES;
    use crate::keys;
    use crate::log::RecentEvents;
    use crate::order::OrderState;
    use crate::pet::PetStatus;
    use crate::plan::{MAX_LIMIT, PlanName};
    use crate::store::KeyState;

    #[test]
    fn every_file_of_the_page_is_there_and_nothing_else_is_referred_to() {
        let files = build();
        let Some((_, page)) = files.iter().find(|(path, _)| path == "/") else {
            panic!("no page");
        };
        // The bytes are printed escaped.
        let page = format!("{page:?}").replace("\\\"", "\"");
        let mut count = 0;
        for attribute in [" href=\"", " src=\""] {
            for rest in page.split(attribute).skip(1) {
                let reference = rest.split('"').next().unwrap_or_default();
                let path = format!("/{reference}");
                let is_file = files.iter().any(|(known, _)| *known == path);
                assert!(is_file || reference.starts_with('#'), "{reference}");
                count += usize::from(is_file);
            }
        }
        assert_eq!(count, 4, "the icon twice, the style, the script");
    }

    #[test]
    fn what_the_page_repeats_is_what_the_server_has() {
        let plans = format!("const plans = {:?};", PlanName::ALL.map(PlanName::as_str));
        let grace = format!("name: \"grace\", value: {:?}", keys::DEFAULT_GRACE);
        let statuses = PetStatus::ALL.map(PetStatus::as_str);
        let keys = include_str!("page/keys.js");
        assert!(keys.contains(&plans) && keys.contains(&grace));
        assert_eq!(keys.matches("max: 1e9,").count(), 2);
        assert_eq!(f64::from(MAX_LIMIT), 1e9);
        assert!(keys.contains(&format!("requests in {LIST_USAGE_DAYS} days")));
        assert!(keys.contains(&format!("in the last {KEY_USAGE_DAYS} days")));
        let index = include_str!("page/index.html");
        assert!(index.contains(&format!("<th scope=\"col\">{LIST_USAGE_DAYS} days</th>")));
        let statuses_in_page = format!("const statuses = {statuses:?};");
        assert!(include_str!("page/animals.js").contains(&statuses_in_page));
        let now = include_str!("page/now.js");
        assert!(now.contains(&format!(".slice(-{MAX_SAMPLES})")));
        assert!(now.contains(&format!("children.length > {})", RecentEvents::CAPACITY)));
        let options = |select: &str, names: &[&str]| {
            let options: String = names
                .iter()
                .map(|name| format!("<option>{name}</option>"))
                .collect();
            let text = format!("id=\"{select}\"><option value=\"\">all</option>{options}</select>");
            assert!(index.contains(&text), "{text}");
        };
        options("keys-state", &KeyState::ALL.map(KeyState::as_str));
        options("animals-status", &statuses);
        options("orders-state", &OrderState::ALL.map(OrderState::as_str));
    }

    #[test]
    fn the_plots_are_drawn_by_the_published_uplot() {
        let hash = |text: &str| -> String {
            let digest = Sha256::digest(text);
            digest.iter().map(|byte| format!("{byte:02x}")).collect()
        };
        assert_eq!(
            hash(include_str!("page/uplot/uplot.js")),
            "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f"
        );
        assert_eq!(
            hash(include_str!("page/uplot/uplot.css")),
            "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04"
        );
    }
}
