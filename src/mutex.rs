//! Locks that ignore poisoning: no code leaves what it has locked inconsistent when it panics.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A mutex on a separate cache line: cores that lock different ones do not slow each other down.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct AlignedMutex<T>(pub(crate) Mutex<T>);

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
