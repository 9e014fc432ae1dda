//! Method and path become an [`Operation`], one variant for each `operationId`. This `match` is the whole router.

use http::Method;

/// What the API can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation<'a> {
    /// `GET /pets`
    ListPets,
    /// `POST /pets`
    CreatePet,
    /// `GET /pets/{petId}`, deprecated.
    GetPet {
        /// The last segment of the path.
        id: &'a str,
    },
    /// `GET /store/orders`, beta.
    ListOrders,
}

/// What lies outside `/v1`, for everyone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenPage {
    /// `/` and `/docs/`, which lead to the docs.
    Root,
    /// `/docs` and its files.
    Docs,
    /// `/openapi.json`
    OpenApiJson,
    /// `/openapi.yaml`
    OpenApiYaml,
    /// `/livez`
    Live,
    /// `/readyz`
    Ready,
}

/// Where a request leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route<'a> {
    /// To an operation, under `/v1`.
    Operation(Operation<'a>),
    /// To a path under `/v1` that has operations, with none of their methods.
    WrongMethod {
        /// The methods it takes.
        allowed: &'static str,
    },
    /// To nothing under `/v1`.
    Unknown,
    /// Outside `/v1`: to a page.
    Open(OpenPage),
    /// Outside `/v1`: to a page, with a method it does not take.
    OpenWrongMethod,
    /// Outside `/v1`: to nothing.
    OpenUnknown,
}

/// What every page outside `/v1` takes.
pub const OPEN_METHODS: &str = "GET, HEAD";

impl<'a> Route<'a> {
    /// The route of a request, by its decoded path. `HEAD` goes wherever `GET` does.
    pub fn of(method: &Method, path: &'a str) -> Self {
        let reads = matches!(*method, Method::GET | Method::HEAD);
        match path.strip_prefix("/v1") {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                Self::under_v1(method, reads, rest)
            }
            _ => match OpenPage::of(path) {
                Some(page) if reads => Self::Open(page),
                Some(_) => Self::OpenWrongMethod,
                None => Self::OpenUnknown,
            },
        }
    }

    fn under_v1(method: &Method, reads: bool, path: &'a str) -> Self {
        const READ_ONLY: &str = "GET, HEAD";
        match path {
            "/pets" if reads => Self::Operation(Operation::ListPets),
            "/pets" if *method == Method::POST => Self::Operation(Operation::CreatePet),
            "/pets" => Self::WrongMethod {
                allowed: "GET, HEAD, POST",
            },
            "/store/orders" if reads => Self::Operation(Operation::ListOrders),
            "/store/orders" => Self::WrongMethod { allowed: READ_ONLY },
            _ => match path.strip_prefix("/pets/") {
                Some(id) if id.is_empty() || id.contains('/') => Self::Unknown,
                Some(id) if reads => Self::Operation(Operation::GetPet { id }),
                Some(_) => Self::WrongMethod { allowed: READ_ONLY },
                None => Self::Unknown,
            },
        }
    }

    /// Whether it lies under `/v1`: such answers need a key and carry rate headers.
    pub const fn is_api(&self) -> bool {
        matches!(
            self,
            Self::Operation(_) | Self::WrongMethod { .. } | Self::Unknown
        )
    }
}

impl OpenPage {
    fn of(path: &str) -> Option<Self> {
        Some(match path {
            "/" | "/docs/" => Self::Root,
            "/openapi.json" => Self::OpenApiJson,
            "/openapi.yaml" => Self::OpenApiYaml,
            "/livez" => Self::Live,
            "/readyz" => Self::Ready,
            "/docs" => Self::Docs,
            _ if path.starts_with("/docs/") => Self::Docs,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn method_and_path_lead_to_one_place() {
        let route = |method: &str, path| Route::of(&method.parse().unwrap(), path);
        assert_eq!(
            route("GET", "/v1/pets"),
            Route::Operation(Operation::ListPets)
        );
        assert_eq!(
            route("HEAD", "/v1/pets"),
            Route::Operation(Operation::ListPets)
        );
        assert_eq!(
            route("POST", "/v1/pets"),
            Route::Operation(Operation::CreatePet)
        );
        assert_eq!(
            route("GET", "/v1/pets/7"),
            Route::Operation(Operation::GetPet { id: "7" })
        );
        assert_eq!(
            route("PUT", "/v1/pets"),
            Route::WrongMethod {
                allowed: "GET, HEAD, POST"
            }
        );
        assert_eq!(
            route("DELETE", "/v1/pets/7"),
            Route::WrongMethod {
                allowed: "GET, HEAD"
            }
        );
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
            assert_eq!(route("GET", path), Route::OpenUnknown, "{path}");
        }
        assert_eq!(route("GET", "/docs/a.css"), Route::Open(OpenPage::Docs));
        assert_eq!(route("POST", "/livez"), Route::OpenWrongMethod);
    }
}
