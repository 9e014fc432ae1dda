//! The limit on open files, which limits connections.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit on open files, if necessary and as far as the hard limit allows, for this many connections and for `others`,
/// the files that are open for other purposes. Returns the number of connections that it then allows, at most `wanted`. At most half
/// of the limit is reserved for other files.
pub fn raise_open_file_limit(wanted: usize, others: u64) -> usize {
    let files = wanted as u64 + others;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= files) {
        return wanted;
    }
    let allowed = limit.maximum.map_or(files, |maximum| maximum.min(files));
    let raised = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(allowed),
            maximum: limit.maximum,
        },
    );
    let granted = if raised.is_ok() {
        allowed
    } else {
        limit.current.unwrap_or(allowed)
    };
    usize::try_from(granted - others.min(granted / 2))
        .unwrap_or(wanted)
        .clamp(1, wanted)
}
