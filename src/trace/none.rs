//! No spans, in a build without the feature `otel`.

use super::{DatabaseSystem, NewRequest};

// No request carries anything for them.
const _: () = assert!(size_of::<(RequestSpan, QuerySpan, CommitSpan)>() == 0);

pub(crate) struct RequestSpan;

impl RequestSpan {
    #[inline(always)]
    pub(crate) fn start<'a>(_request: impl FnOnce() -> NewRequest<'a>) -> Self {
        Self
    }

    pub(crate) const fn none() -> Self {
        Self
    }

    #[inline(always)]
    pub(crate) fn within<F: Future>(&self, steps: F) -> F {
        steps
    }

    #[inline(always)]
    pub(crate) fn end(&self, _status: Option<u16>) {}
}

pub(crate) struct QuerySpan;

impl QuerySpan {
    #[inline(always)]
    pub(crate) fn start(
        _system: DatabaseSystem,
        _operation: &'static str,
        _target: &'static str,
    ) -> Self {
        Self
    }

    #[inline(always)]
    pub(crate) fn end(self, _error: Option<&'static str>) {}
}

pub(crate) struct CommitSpan;

impl CommitSpan {
    #[inline(always)]
    pub(crate) fn waiting(_system: DatabaseSystem) -> Self {
        Self
    }

    #[inline(always)]
    pub(crate) fn begin(&mut self, _batch: usize) {}

    #[inline(always)]
    pub(crate) fn end(self, _error: Option<&'static str>) {}
}

pub(crate) fn shut_down() {}

/// Dropped spans by reason: none are counted.
pub(crate) const fn dropped() -> Option<[(&'static str, u64); 0]> {
    None
}
