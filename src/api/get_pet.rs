//! `GET /pets/{petId}`: one animal. Deprecated.

use http::StatusCode;

use super::{Api, ApiError};
use crate::http::Response;
use crate::pet::PetId;

impl Api {
    pub(super) async fn get_pet(&self, id: &str) -> Result<Response, ApiError> {
        const UNKNOWN: ApiError = ApiError::NotFound("There is no animal with this ID.");
        let id = PetId::from_path(id).ok_or(UNKNOWN)?;
        let json = self.store.pet(id).await?.ok_or(UNKNOWN)?;
        Ok(Response::json(StatusCode::OK, json))
    }
}
