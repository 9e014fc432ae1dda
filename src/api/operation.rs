//! The table of operations, and the router that follows it. A new operation is a row of the table, a handler in a separate file, and
//! an entry in `openapi.yaml`; a test compares the three.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use http::Method;

use crate::clock::Timestamp;

/// Generates [`Operation`], [`TABLE`] and the router from the rows. The router is a `match`, because a search of the table would cost
/// two to four times the instructions.
macro_rules! operations {
    ($($operation:ident $name:literal $method:ident $path:literal $stability:expr;)+) => {
        /// An operation of the API.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Operation {
            $(#[doc = concat!("`", stringify!($method), " ", $path, "`")] $operation,)+
        }

        impl Operation {
            /// Every operation, in the order of the table.
            pub const ALL: [Self; TABLE.len()] = [$(Self::$operation),+];

            /// The template of its path, with the prefix of the version.
            const fn template(self) -> &'static str {
                match self {
                    $(Self::$operation => concat!("/v1", $path),)+
                }
            }
        }

        static TABLE: [Row; [$($name),+].len()] = [$(Row {
            name: $name,
            method: Method::$method,
            path: $path,
            stability: $stability,
        }),+];

        #[expect(unreachable_patterns, reason = "a path has a row for each of its methods")]
        fn find<'a>(method: &Method, reads: bool, path: &'a str) -> Route<'a> {
            let call = |operation, parameter| Route::Operation(Call { operation, parameter });
            match path {
                $($path if accepts(&Method::$method, method, reads) => call(Operation::$operation, ""),)+
                $($path => Route::WrongMethod { allowed: allowed($path) },)+
                _ => {
                    let mut route = Route::Unknown;
                    $(if let Some(parameter) = parameter(path, const { fixed_part($path) }) {
                        if accepts(&Method::$method, method, reads) {
                            return call(Operation::$operation, parameter);
                        }
                        route = Route::WrongMethod { allowed: allowed($path) };
                    })+
                    route
                }
            }
        }
    };
}

operations! {
    // operation, operationId, method, path, stability
    ListPets    "listPets"    GET   "/pets"          Stability::Stable;
    CreatePet   "createPet"   POST  "/pets"          Stability::Stable;
    GetPet      "getPet"      GET   "/pets/{petId}"  Stability::Deprecated(Deprecation {
        since: Timestamp::from_secs(1_794_700_800),
        sunset: Timestamp::from_secs(1_922_659_200),
        successor: "/pets?status=available",
    });
    ListOrders  "listOrders"  GET   "/store/orders"  Stability::Beta;
}

/// A row of the table.
#[derive(Debug)]
struct Row {
    name: &'static str,
    method: Method,
    path: &'static str,
    stability: Stability,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stability {
    /// Within v1, changes are only additions.
    Stable,
    /// It may change.
    Beta,
    /// It will be removed.
    Deprecated(Deprecation),
}

/// The dates of a deprecated operation, and its successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deprecation {
    pub since: Timestamp,
    pub sunset: Timestamp,
    /// The path and query to use instead, under `/v1`.
    pub successor: &'static str,
}

impl Operation {
    const fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    /// Its `operationId`, which is its label in metrics and logs too.
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    pub(crate) const fn stability(self) -> &'static Stability {
        &self.row().stability
    }
}

/// An operation to perform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call<'a> {
    pub operation: Operation,
    /// The variable segment of its path; empty if it has none.
    pub parameter: &'a str,
}

/// A page outside `/v1`, which needs no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PublicPage {
    /// `/` and `/docs/`, which redirect to the docs.
    Root,
    /// `/docs` and its files, and `/llms.txt`.
    Docs,
    OpenApiJson,
    OpenApiYaml,
    Live,
    Ready,
}

/// Where a request is routed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route<'a> {
    /// An operation, under `/v1`.
    Operation(Call<'a>),
    /// A path of operations under `/v1`, with a method that none of them has.
    WrongMethod { allowed: &'static str },
    /// An unknown path under `/v1`.
    Unknown,
    /// A page outside `/v1`.
    Public(PublicPage),
    /// A page outside `/v1`, with a method it does not support.
    PublicWrongMethod,
    /// An unknown path outside `/v1`.
    PublicUnknown,
    /// A preflight of a browser, for a path with these methods.
    Preflight { methods: &'static str },
}

/// The methods of every page outside `/v1`.
pub(crate) const PUBLIC_METHODS: &str = "GET, HEAD";

/// The methods of all operations.
const ALL_METHODS: &str = "GET, HEAD, POST";

impl<'a> Route<'a> {
    /// Returns the route of a request, by its decoded path. `HEAD` is routed as `GET`.
    pub(crate) fn of(method: &Method, path: &'a str) -> Self {
        let reads = matches!(*method, Method::GET | Method::HEAD);
        match path.strip_prefix("/v1") {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => find(method, reads, rest),
            _ => match PublicPage::of(path) {
                Some(page) if reads => Self::Public(page),
                Some(_) => Self::PublicWrongMethod,
                None => Self::PublicUnknown,
            },
        }
    }

    /// The route of a preflight for this one. Under `/v1`, an unknown path allows all methods, so that the page gets the 404, which
    /// says more than a failed preflight.
    pub(crate) const fn preflight(self) -> Self {
        let methods = match self {
            Self::WrongMethod { allowed } => allowed,
            Self::Operation(_) | Self::Unknown => ALL_METHODS,
            _ => PUBLIC_METHODS,
        };
        Self::Preflight { methods }
    }

    /// The template of its path, if it has one: a path without a route could contain anything.
    pub(crate) const fn template(&self) -> Option<&'static str> {
        Some(match self {
            Self::Operation(call) => call.operation.template(),
            Self::Public(PublicPage::Root) => "/",
            Self::Public(PublicPage::Docs) => "/docs",
            Self::Public(PublicPage::OpenApiJson) => "/openapi.json",
            Self::Public(PublicPage::OpenApiYaml) => "/openapi.yaml",
            Self::Public(PublicPage::Live) => "/livez",
            Self::Public(PublicPage::Ready) => "/readyz",
            _ => return None,
        })
    }

    /// Whether it is under `/v1`: such requests need a key, and their responses have rate headers.
    pub(crate) const fn is_api(&self) -> bool {
        matches!(
            self,
            Self::Operation(_) | Self::WrongMethod { .. } | Self::Unknown
        )
    }
}

/// Whether an operation with this method accepts a request.
fn accepts(operation: &Method, method: &Method, reads: bool) -> bool {
    match *operation {
        Method::GET => reads,
        _ => method == operation,
    }
}

/// The part of a path before its variable segment, if it has one.
const fn fixed_part(path: &str) -> Option<&str> {
    let mut end = 0;
    while end < path.len() {
        if path.as_bytes()[end] == b'{' {
            return Some(path.split_at(end).0);
        }
        end += 1;
    }
    None
}

/// The variable segment of a path that begins with this fixed part.
fn parameter<'a>(path: &'a str, fixed: Option<&str>) -> Option<&'a str> {
    let segment = path.strip_prefix(fixed?)?;
    (!segment.is_empty() && !segment.contains('/')).then_some(segment)
}

/// The methods of a path, for `Allow`.
#[cold]
fn allowed(path: &str) -> &'static str {
    static ALLOWED: LazyLock<BTreeMap<&str, String>> = LazyLock::new(|| {
        let mut allowed = BTreeMap::<&str, String>::new();
        for row in &TABLE {
            let methods = allowed.entry(row.path).or_default();
            let separator = if methods.is_empty() { "" } else { ", " };
            let method = match row.method {
                Method::GET => PUBLIC_METHODS,
                _ => row.method.as_str(),
            };
            methods.push_str(&format!("{separator}{method}"));
        }
        allowed
    });
    ALLOWED.get(path).map_or("", String::as_str)
}

impl PublicPage {
    fn of(path: &str) -> Option<Self> {
        Some(match path {
            "/" | "/docs/" => Self::Root,
            "/openapi.json" => Self::OpenApiJson,
            "/openapi.yaml" => Self::OpenApiYaml,
            "/livez" => Self::Live,
            "/readyz" => Self::Ready,
            "/docs" | "/llms.txt" => Self::Docs,
            _ if path.starts_with("/docs/") => Self::Docs,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use serde_json::Value;

    use super::*;
    use crate::api::document::Document;

    fn route<'a>(method: &str, path: &'a str) -> Route<'a> {
        Route::of(&method.parse().unwrap(), path)
    }

    /// The rows as text: `GET /pets listPets stable`.
    fn rows() -> BTreeSet<String> {
        let row = |operation: Operation| {
            let Row {
                name,
                method,
                path,
                stability,
            } = operation.row();
            let stability = match stability {
                Stability::Stable => "stable".to_owned(),
                Stability::Beta => "beta".to_owned(),
                Stability::Deprecated(deprecation) => format!("until {}", deprecation.sunset.day()),
            };
            format!("{method} {path} {name} {stability}")
        };
        Operation::ALL.map(row).into()
    }

    #[test]
    fn the_table_has_the_operations_of_the_document() {
        let document: Value = serde_json::from_slice(&Document::new(None, None).json).unwrap();
        let mut documented = BTreeSet::new();
        for (path, methods) in document["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                let Some(name) = operation["operationId"].as_str() else {
                    continue;
                };
                let marks = ["deprecated", "x-deprecated-sunset", "x-stability"];
                let stability = match marks.map(|mark| &operation[mark]) {
                    [Value::Null, Value::Null, Value::Null] => "stable".to_owned(),
                    [Value::Null, Value::Null, Value::String(stability)] => stability.clone(),
                    [Value::Bool(true), Value::String(day), Value::Null] => format!("until {day}"),
                    marks => panic!("{name}: {marks:?}"),
                };
                let method = method.to_uppercase();
                documented.insert(format!("{method} {path} {name} {stability}"));
            }
        }
        assert_eq!(rows(), documented);
    }

    #[test]
    fn the_table_has_the_operations_that_have_a_handler_in_a_separate_file() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/api");
        let mut handled = BTreeSet::new();
        for file in fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            let text = fs::read_to_string(&path).unwrap_or_default();
            // The file of a handler begins with its method and path.
            let first = text
                .lines()
                .next()
                .and_then(|line| line.strip_prefix("//! `"));
            let Some((target, _)) = first.and_then(|line| line.split_once('`')) else {
                continue;
            };
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            assert!(text.contains(&format!("async fn {name}(")), "{name}");
            handled.insert((target.to_owned(), name.replace('_', "")));
        }
        let rows = Operation::ALL.map(|operation| {
            let Row {
                name, method, path, ..
            } = operation.row();
            (format!("{method} {path}"), name.to_lowercase())
        });
        assert_eq!(handled, rows.into());
    }

    #[test]
    fn every_row_is_routed_by_its_method_and_path() {
        for operation in Operation::ALL {
            let Row { method, path, .. } = operation.row();
            let (path, parameter) = match fixed_part(path) {
                Some(fixed) => (format!("/v1{fixed}x7"), "x7"),
                None => (format!("/v1{path}"), ""),
            };
            let expected = Route::Operation(Call {
                operation,
                parameter,
            });
            assert_eq!(route(method.as_str(), &path), expected);
            if *method == Method::GET {
                assert_eq!(route("HEAD", &path), expected);
            }
        }
    }

    #[test]
    fn another_method_gets_the_methods_of_the_path_in_allow() {
        for (path, allowed) in [
            ("/v1/pets", "GET, HEAD, POST"),
            ("/v1/pets/7", "GET, HEAD"),
            ("/v1/store/orders", "GET, HEAD"),
        ] {
            for method in ["PUT", "DELETE", "OPTIONS", "get", "X"] {
                let expected = Route::WrongMethod { allowed };
                assert_eq!(route(method, path), expected, "{method} {path}");
            }
        }
        assert_eq!(route("POST", "/livez"), Route::PublicWrongMethod);
    }

    #[test]
    fn a_preflight_is_for_the_methods_of_its_path() {
        for (path, methods) in [
            ("/v1/pets", "GET, HEAD, POST"),
            ("/v1/pets/7", "GET, HEAD"),
            ("/v1/unknown", ALL_METHODS),
            ("/openapi.json", "GET, HEAD"),
            ("/unknown", "GET, HEAD"),
        ] {
            let expected = Route::Preflight { methods };
            assert_eq!(route("OPTIONS", path).preflight(), expected, "{path}");
        }
        for operation in Operation::ALL {
            let method = operation.row().method.as_str();
            assert!(ALL_METHODS.split(", ").any(|one| one == method));
        }
    }

    #[test]
    fn any_other_path_is_unknown() {
        for path in [
            "/v1",
            "/v1/",
            "/v1/petsx",
            "/v1/pets/",
            "/v1/pets/7/x",
            "/v1/store",
            "/v1/store/orders/",
            "/v1/orders",
        ] {
            assert_eq!(route("GET", path), Route::Unknown, "{path}");
        }
        for path in ["/v1x", "/v2/pets", "/pets", "*", "", "/docsx"] {
            assert_eq!(route("GET", path), Route::PublicUnknown, "{path}");
        }
        assert_eq!(route("GET", "/docs/a.css"), Route::Public(PublicPage::Docs));
    }
}
