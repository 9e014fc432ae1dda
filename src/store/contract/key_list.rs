//! A page of the list of keys for the dashboard: searched, sorted, and with the number of all that match.
//!
//! The statements are the same for every engine, apart from the character that begins a parameter: `?` or `$`.

use super::key::KeyRecord;
use super::key_state::KeyState;
use super::tables::Value;
use crate::clock::{Day, Timestamp};

#[derive(Clone, Debug)]
pub struct KeyListQuery {
    /// A part of the name or the beginning of the prefix, both case-insensitive, or the ID.
    pub search: Option<String>,
    pub state: Option<KeyState>,
    pub sort: KeySort,
    /// Whether the largest come first.
    pub descending: bool,
    pub offset: u32,
    pub limit: u16,
    /// The time at which the states of keys are determined.
    pub now: Timestamp,
}

/// The order of a list of keys. Keys that are equal in it are in the order of their IDs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeySort {
    #[default]
    Id,
    Name,
    Plan,
    /// By the time of the last use; that of a key that was never used counts as the earliest.
    LastUsed,
    /// By the requests of this day that are stored.
    Requests(Day),
}

#[derive(Clone, Debug)]
pub struct KeyList {
    pub keys: Vec<KeyRecord>,
    /// How many keys match in all.
    pub total: i64,
}

/// The end of a statement that selects keys, with its parameters.
pub(crate) struct KeyListSql {
    placeholder: char,
    pub(crate) text: String,
    pub(crate) params: Vec<Value>,
}

impl KeyListSql {
    /// Adds a parameter, and returns how the statement names it.
    fn bind(&mut self, param: Value) -> String {
        self.params.push(param);
        format!("{}{}", self.placeholder, self.params.len())
    }

    fn bind_text(&mut self, text: &str) -> String {
        self.bind(Value::Text(text.to_owned()))
    }
}

impl KeyListQuery {
    /// The condition, with parameters that begin with this character.
    pub(crate) fn condition(&self, placeholder: char) -> KeyListSql {
        let mut sql = KeyListSql {
            placeholder,
            text: "WHERE id > 0".into(),
            params: Vec::new(),
        };
        if let Some(state) = self.state {
            let now = sql.bind(Value::Int(self.now.as_millis()));
            let state = sql.bind_text(state.as_str());
            sql.text += &format!(" AND {} = {state}", KeyState::sql(&now));
        }
        if let Some(search) = &self.search {
            let name = sql.bind_text(&format!("%{}%", escaped(search)));
            let prefix = sql.bind_text(&format!("{}%", escaped(search)));
            let id = sql.bind(Value::Int(search.parse().unwrap_or(-1)));
            // The database converts both sides: PostgreSQL's `lower` depends on its locale, and a search for a whole name must find it.
            sql.text += &format!(
                " AND (lower(name) LIKE lower({name}) ESCAPE '!' OR lower(prefix) LIKE lower({prefix}) ESCAPE '!' OR id = {id})"
            );
        }
        sql
    }

    pub(crate) fn ordered(&self, placeholder: char) -> KeyListSql {
        let mut sql = self.condition(placeholder);
        let order = match self.sort {
            KeySort::Id => None,
            KeySort::Name => Some("lower(name)".to_owned()),
            KeySort::Plan => Some("plan".to_owned()),
            KeySort::LastUsed => Some("coalesce(last_used_at, 0)".to_owned()),
            KeySort::Requests(day) => {
                let day = sql.bind_text(&day.to_string());
                Some(format!(
                    "coalesce((SELECT requests FROM usage_by_day WHERE api_key_id = api_keys.id AND day = {day}), 0)"
                ))
            }
        };
        let direction = if self.descending { "DESC" } else { "ASC" };
        let order = order.map_or(String::new(), |order| format!("{order} {direction}, "));
        sql.text += &format!(" ORDER BY {order}id {direction}");
        sql
    }

    /// The condition, the order, and the page.
    pub(crate) fn selection(&self, placeholder: char) -> KeyListSql {
        let mut sql = self.ordered(placeholder);
        let limit = sql.bind(Value::Int(self.limit.into()));
        let offset = sql.bind(Value::Int(self.offset.into()));
        sql.text += &format!(" LIMIT {limit} OFFSET {offset}");
        sql
    }
}

/// Text in which no character is a wildcard of LIKE.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if matches!(character, '%' | '_' | '!') {
            escaped.push('!');
        }
        escaped.push(character);
    }
    escaped
}
