//! Animals: the list, one animal, and its status.

use http::StatusCode;
use http::header::HeaderName;
use serde::Deserialize;
use serde_json::json;

use super::{Admin, AdminCall, ApiResult, invalid, respond_json as respond};
use crate::api::{ApiError, query};
use crate::http::{Response, header};
use crate::order::Order;
use crate::order::action::ActionRejection;
use crate::page::{Cursor, Scope};
use crate::pet::{PetId, PetStatus};

/// The cursor of the next page, if there is one.
const NEXT_CURSOR: HeaderName = HeaderName::from_static("x-next-cursor");

/// The same in messages.
pub(super) const CURSOR_SOURCE: &str = "X-Next-Cursor";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SetStatus {
    status: String,
    /// Whether to cancel the open order for the animal.
    #[serde(default)]
    force: bool,
}

impl Admin {
    pub(super) async fn list_pets(&self, call: &AdminCall<'_>) -> ApiResult {
        let query = query::parse_pet_query(call.head.query, CURSOR_SOURCE)?;
        let page = self.store().current_page(query).await?;
        let response = Response::json(StatusCode::OK, page.json);
        Ok(with_next(response, page.next, query.scope()))
    }

    pub(super) async fn show_pet(&self, id: PetId) -> ApiResult {
        let pet = self.store().current_pet(id).await?;
        let pet = pet.ok_or(ApiError::NotFound("There is no animal with this ID."))?;
        Ok(Response::json(StatusCode::OK, pet))
    }

    pub(super) async fn set_status(&self, id: PetId, call: &mut AdminCall<'_>) -> ApiResult {
        let body: SetStatus = self.read(call).await?;
        let status = body.status.parse::<PetStatus>();
        let status = status.map_err(|error| invalid("status", error))?;
        let set = self.store().set_status(id, status, body.force, call.now);
        let set = set.await??;
        let cancelled = |order: Order| format!(", order {} cancelled", order.id);
        let order = set.order.map(cancelled).unwrap_or_default();
        let status = status.as_str();
        call.log("status set", &format!("animal {id}, {status}{order}"));
        let report = json!({
            "id": id.0,
            "status": status,
            "before": set.before.as_str(),
            "cancelledOrder": set.order.map(|order| order.id.0),
        });
        Ok(respond(StatusCode::OK, &report))
    }
}

/// A page with the cursor of the next one.
pub(super) fn with_next(mut response: Response, next: Option<Cursor>, scope: Scope) -> Response {
    if let Some(next) = next {
        let text = next.bound_to(scope).to_string();
        response.add(NEXT_CURSOR, header::value(text));
    }
    response
}

/// The error of an action that a rule forbids.
impl From<ActionRejection> for ApiError {
    fn from(rejection: ActionRejection) -> Self {
        match rejection {
            ActionRejection::UnknownPet(_) => {
                ApiError::NotFound("There is no animal with this ID.")
            }
            ActionRejection::UnknownOrder(_) => {
                ApiError::NotFound("There is no order with this ID.")
            }
            // The dashboard shows it without the last part (`sentence` in core.js).
            ActionRejection::OpenOrder(order) => ApiError::Conflict(format!(
                "animal {} has the open order {}: complete or cancel it, or send {} to cancel it",
                order.pet,
                order.id,
                json!({"force": true})
            )),
            rejection => ApiError::Conflict(rejection.to_string()),
        }
    }
}
