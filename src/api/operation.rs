//! The table of operations, and the router that follows it. A new operation is a row of the table, a handler in a separate file, and
//! an entry in `openapi.yaml`; a test compares the three.

use http::Method;

use crate::clock::Timestamp;

/// Generates [`Operation`], [`TABLE`] and the router from the rows. The router is a `match`, because a search of the table would cost
/// two to four times the instructions.
macro_rules! operations {
    ($($operation:ident $name:literal $method:ident $path:literal $stability:expr;)+) => {
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

        static TABLE: [OperationRow; [$($name),+].len()] = [$(OperationRow {
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
        // 2026-11-15
        since: Timestamp::from_secs(1_794_700_800),
        // 2030-12-05
        sunset: Timestamp::from_secs(1_922_659_200),
        successor: "/pets?status=available",
    });
    ListOrders  "listOrders"  GET   "/store/orders"  Stability::Beta;
}

struct OperationRow {
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
    const fn row(self) -> &'static OperationRow {
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

/// A resource outside `/v1`, which needs no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PublicResource {
    /// `/` and `/docs/`, which redirect to the docs.
    Root,
    /// `/docs` and its files, and `/llms.txt`.
    Docs,
    OpenApiJson,
    OpenApiYaml,
    Liveness,
    Readiness,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route<'a> {
    /// An operation, under `/v1`.
    Operation(Call<'a>),
    /// A path of operations under `/v1`, with a method that none of them has.
    WrongMethod { allowed: &'static str },
    /// An unknown path under `/v1`.
    Unknown,
    /// A resource outside `/v1`.
    Public(PublicResource),
    /// A resource outside `/v1`, with a method it does not support.
    PublicWrongMethod,
    /// An unknown path outside `/v1`.
    PublicUnknown,
    /// A preflight of a browser, for a path with these methods.
    Preflight { methods: &'static str },
}

/// The maximum length of a body. At most `STREAM_WINDOW` in `http/http2.rs`, so that no client has to wait for more room.
pub(crate) const MAX_BODY_BYTES: usize = 16 * 1024;

/// The maximum length of path and query.
pub(crate) const MAX_TARGET_BYTES: usize = 8 * 1024;

/// The methods of a path that is only read, as every resource outside `/v1` is.
pub(crate) const READ_METHODS: &str = "GET, HEAD";

const ALL_METHODS: &str = "GET, HEAD, POST";

impl<'a> Route<'a> {
    /// Returns the route of a request, by its decoded path. `HEAD` is routed as `GET`.
    pub(crate) fn of(method: &Method, path: &'a str) -> Self {
        let reads = matches!(*method, Method::GET | Method::HEAD);
        match path.strip_prefix("/v1") {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => find(method, reads, rest),
            _ => match PublicResource::of(path) {
                Some(resource) if reads => Self::Public(resource),
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
            Self::Unknown => ALL_METHODS,
            _ => READ_METHODS,
        };
        Self::Preflight { methods }
    }

    /// The template of its path, if it has one: a path without a route could contain anything.
    pub(crate) const fn template(&self) -> Option<&'static str> {
        Some(match self {
            Self::Operation(call) => call.operation.template(),
            Self::Public(PublicResource::Root) => "/",
            Self::Public(PublicResource::Docs) => "/docs",
            Self::Public(PublicResource::OpenApiJson) => "/openapi.json",
            Self::Public(PublicResource::OpenApiYaml) => "/openapi.yaml",
            Self::Public(PublicResource::Liveness) => "/livez",
            Self::Public(PublicResource::Readiness) => "/readyz",
            _ => return None,
        })
    }

    /// Whether it is under `/v1` and no preflight: such requests need a key, and their responses have rate limit headers.
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
    let has = |method| {
        let mut rows = TABLE.iter();
        rows.any(|row| row.path == path && row.method == method)
    };
    match (has(Method::GET), has(Method::POST)) {
        (true, true) => ALL_METHODS,
        (true, false) => READ_METHODS,
        (false, _) => "POST",
    }
}

impl PublicResource {
    fn of(path: &str) -> Option<Self> {
        Some(match path {
            "/" | "/docs/" => Self::Root,
            "/openapi.json" => Self::OpenApiJson,
            "/openapi.yaml" => Self::OpenApiYaml,
            "/livez" => Self::Liveness,
            "/readyz" => Self::Readiness,
            "/docs" | "/llms.txt" => Self::Docs,
            _ if path.starts_with("/docs/") => Self::Docs,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests;
